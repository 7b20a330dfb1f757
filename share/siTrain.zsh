#compdef siTrain
# zsh completion of siTrain: as _siTrain into a folder of $fpath
_siTrain() {
    if (( CURRENT == 2 )); then
        local -a commands=(
            'pretrain:train a model'
            'finetune:train a classifier or regressor on your own rows, or a language model on conversations or preferences'
            'eval:measure the loss of a model on a file, or a classifier'\''s metrics'
            'generate:continue a text'
            'prepare:write a token file, train a tokenizer, or show conversations as a model gets them'
            'import:make a run from a Hugging Face folder'
            'export:write a folder that Hugging Face'\''s transformers loads, or a GGUF file'
            'plan:predict memory, traffic, disk space and time of a run before it is made'
            'report:print a run'\''s times, traffic, overlap and bandwidth, or compare runs'
            'watch:show a run while it trains'
            'check:read all of a run or an export, and report damage'
            'reshard:move a run to other drives, or to another number of devices or ranks'
            'snapshots:list the snapshots of a run'
            'restore:make lost devices of a run again, from its newest snapshot'
            'devices:list this machine'\''s processor, memory, engines, disks, CSDs, cards and NVMe drives'
            'bench:measure this machine, then the program against it'
        )
        _describe command commands
        compadd -- --help --version --man --completion
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
    --completion) compadd bash zsh fish ;;
    pretrain)
        _arguments \
            '--config=[Options file, with a line for each option\: name = value. Options of the command line take precedence.]:FILE:_files' \
            '--run=[Folder of the new run]:RUN:_files' \
            '--resume=[Run to continue from its last commit]:RUN:_files' \
            '--from=[With --resume\: the snapshot to go back to, by the number of steps that were done. Options such as --lr, --batch and --seed may change then. What was done beyond it stays as a branch in reports, and a snapshot of the present state is kept.]:STEP: ' \
            '*--data=[Training data\: token file (llm.c'\''s or nanoGPT'\''s), read in place; or text, rows with a text, a folder of these, or - (standard input), tokenised into RUN. Each --data is a source.]:FILE|DIR:_files' \
            '--mix=[Weights of the sources, one for each --data, such as 0.7,0.3 (default\: all rows of all sources once in an epoch)]:WEIGHT,..:_files' \
            '*--eval-data=[Evaluation data, as --data]:FILE|DIR:_files' \
            '--eval-split=[Part of the documents of --data to evaluate on instead of training on them, such as 5% or 0.05. A hash of its contents chooses a document.]:PART: ' \
            '--text-column=[Column (JSON\: key) of the text in rows (default\: text)]:NAME:_files' \
            '--data-format=[Format of the data file]:data-format:(auto text u16 u32)' \
            '--tokenizer=[Tokenizer folder\: tokenizer.json, vocab.json and merges.txt, or BERT'\''s vocab.txt (default\: --init'\''s folder). It must have the vocabulary of --init.]:DIR:_files' \
            '--init=[Hugging Face folder of the model to start from, or of an adapter to go on with. bench, and plan of a fine-tuning, take a run, too.]:HFDIR:_files' \
            '--base=[Folder of the model that an adapter belongs to (default\: the folder that its adapter_config.json names), or of the base that a run reads in place (default\: where it was)]:HFDIR:_files' \
            '--model=[Size of a model to start from, with random parameters\: gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt2-2.7b, smollm2-135m, smollm2-360m, smollm2-1.7b, llama-3.2-1b, llama-3.2-3b, llama-3.1-8b, qwen2.5-0.5b, qwen2.5-1.5b, qwen2.5-3b, qwen2.5-7b, gemma-3-270m, gemma-3-1b, bert-base, bert-large, roberta-base, roberta-large. Size options override its values.]:model:(gpt2 gpt2-medium gpt2-large gpt2-xl gpt2-2.7b smollm2-135m smollm2-360m smollm2-1.7b llama-3.2-1b llama-3.2-3b llama-3.1-8b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b gemma-3-270m gemma-3-1b bert-base bert-large roberta-base roberta-large)' \
            '--n-layer=[Number of layers (default\: --model'\''s). Without --model, --n-layer, --n-head and --n-embd describe a GPT-2.]:N: ' \
            '--n-head=[Number of attention heads (default\: --model'\''s). Must divide --n-embd, unless --head-dim is given.]:N: ' \
            '--n-kv-head=[Number of key and value heads (default\: --model'\''s). Must divide --n-head. GPT-2, BERT and RoBERTa have as many as attention heads.]:N: ' \
            '--head-dim=[Size of one attention head (default\: --model'\''s; if --n-embd or --n-head is given, width / heads)]:N: ' \
            '--n-embd=[Width of embeddings and residual stream (default\: --model'\''s)]:N: ' \
            '--n-inner=[MLP width (default\: --model'\''s; in GPT-2, 4 times --n-embd)]:N: ' \
            '--vocab=[Vocabulary size (default\: the tokenizer'\''s; without a tokenizer, --model'\''s or 50257)]:N: ' \
            '--steps=[Number of training steps. With --resume\: the run'\''s new last step. By default, finetune trains for --epochs.]:N: ' \
            '--schedule-steps=[Length of the learning rate schedule, in steps (default\: --steps). With --resume\: the new length, which applies from the next step on.]:N: ' \
            '--batch=[Number of rows in a micro-batch]:N: ' \
            '--seq=[Number of tokens per row (default\: all positions of the model, but at most 1024 for Llama, Qwen and Gemma). In finetune, --seq means --max-seq.]:N: ' \
            '--grad-accum=[Number of micro-batches per step, summed over all processes]:N: ' \
            '--groups=[Number of gradient groups (0\: one per process). Results depend on the number of groups, not on how many processes share them.]:N: ' \
            '--lr=[Peak learning rate]:X: ' \
            '--min-lr=[Learning rate at the schedule'\''s end]:X: ' \
            '--warmup=[Length of the linear warm-up\: steps, or % of the schedule]:N|PART: ' \
            '--schedule=[Learning rate after the warm-up]:schedule:(cosine linear constant wsd)' \
            '--decay-steps=[Length of the decay at the end of --schedule wsd\: steps, or a part of the schedule (default\: 10%)]:N|PART: ' \
            '--optimizer=[Optimizer, as PyTorch defines it]:optimizer:(adamw adam sgd adagrad)' \
            '--beta1=[Decay rate of the first moment, 0 to 0.9999999. For sgd\: the momentum.]:X: ' \
            '--beta2=[Decay rate of the second moment, 0 to 0.9999999]:X: ' \
            '--eps=[Term added to the root of the second moment]:X: ' \
            '--weight-decay=[Weight decay. Decoupled in adamw; added to the gradient in the other optimizers.]:X: ' \
            '--decay=[Parameters that weight decay applies to]:decay:(matrices all)' \
            '--clip=[Largest gradient norm (0\: no clipping)]:X: ' \
            '--seed=[Seed of initial parameters, data order, masking and dropout]:N: ' \
            '--order=[Order of the training rows]:order:(shuffled sequential)' \
            '--mask-prob=[Fraction of tokens to mask (BERT), 0.1% to 99.9%]:PART: ' \
            '--mask-id=[Id of the mask token (default\: the tokenizer'\''s)]:N: ' \
            '--dropout=[Dropout rate of embeddings, attention and residual branches, 0 to 99% (default\: 0; in finetune, config.json'\''s)]:PART: ' \
            '--label-smoothing=[Fraction of each target'\''s weight that is spread over all words or classes. With --task dpo\: fraction of pairs whose answers are taken to be the wrong way round, below 0.5.]:PART: ' \
            '--neftune-alpha=[Size of the noise that training adds to the words'\'' embeddings (NEFTune; 0\: none). Usual values\: 5 to 15.]:X: ' \
            '--dtype=[Precision of parameters and of inputs of matrix products, in forward and backward. Sums are fp32.]:dtype:(fp32 bf16)' \
            '--mode=[Where optimizer states live and who updates them]:mode:(mem base su su+o su+o+c)' \
            '--csd=[Kind of computational storage device]:csd:(emu null xrt opencl)' \
            '--devices=[Number of devices, made as folders in RUN, 1 to 1024]:N: ' \
            '*--device=[Folder, file or block device of one device]:PATH:_files' \
            '*--act-device=[Where to store offloaded activations\: folder, new file or block device (default\: on the state devices). Temporary. With --resume, none removes the run'\''s.]:act-device:(none)' \
            '*--fpga=[Card of one device, as `siTrain devices` names it (default\: the card next to each drive). Requires --csd xrt. Give one card for every device, or none.]:ADDRESS:_files' \
            '--xclbin=[File with the cards'\'' kernels. Requires --csd xrt.]:FILE:_files' \
            '--force-device[Use block devices even if they carry a signature or another run]' \
            '--device-in-ram[Allow device files on a tmpfs. They add to --host-mem and are lost at power-off.]' \
            '--csd-mem=[Largest accelerator memory per device, 128K or more]:SIZE: ' \
            '--compress=[Fraction of the dense gradient'\''s bytes to send, as its largest values (default\: dense; in --mode su+o+c, 2%)]:PART: ' \
            '--error-feedback[Add gradient values that were not sent to the next step'\''s gradient. Requires --compress.]' \
            '--speculate[Update a block before the gradient norm is known (base, su+o, su+o+c). If clipping applies, the block is updated again. Results are identical; disk space grows 1.4 times.]' \
            '--spare-slots=[Space on the devices for updates that run ahead of commits]:spare-slots:(auto half few)' \
            '--link-bw=[Bandwidth of the modelled host link, bytes/s (default\: 0, unlimited)]:SIZE: ' \
            '--csd-read-bw=[Read speed of each modelled drive, bytes/s (default\: 0, unlimited; one value for all, or one per device, comma-separated). Reads and writes share the drive'\''s time.]:SIZE,..: ' \
            '--csd-write-bw=[Write speed of each modelled drive, bytes/s (default\: 0, unlimited; one value for all, or one per device, comma-separated)]:SIZE,..: ' \
            '--csd-latency=[Latency of a request to a modelled drive, in microseconds (default\: 0). Latencies of several requests overlap.]:X: ' \
            '--topology=[File that describes the modelled links as a tree (docs/internals/topology.md). Replaces --link-bw and --csd-... and is read at each start.]:topology:(none)' \
            '--host-mem=[RAM limit of the whole process, without the arenas of emulated devices (default\: 0, no limit)]:SIZE: ' \
            '--activations=[How backward gets the activations]:activations:(keep recompute offload auto ssdtrain)' \
            '--blas=[Engine of matrix products]:blas:(auto openblas onednn sitrain)' \
            '--threads=[Number of compute threads (default\: 0, all cores that the process may use). mpirun without --bind-to none may leave one or two cores. Except with --blas sitrain, the last bits of results depend on the number.]:N: ' \
            '--disk=[How devices are read and written. null stores nothing.]:disk:(uring sync null)' \
            '--io-timeout=[Seconds without a sign of life from a device, or from the files of --base-in-place, until the run ends (0\: never)]:X: ' \
            '--rank-timeout=[Seconds without an answer from another process (mpirun) until training ends (0\: never). Must exceed the time of the slowest process for two layers.]:X: ' \
            '--endurance=[Bytes that can be written to a drive in its life (TBW; default\: unknown). Training warns if the drive would last less than a year.]:SIZE: ' \
            '--durability=[When written states are flushed]:durability:(step none)' \
            '--commit-every=[Number of steps between commits in --mode mem]:N: ' \
            '--eval-every=[Number of steps between evaluations (default\: 0, only at the end; in finetune, one epoch)]:N: ' \
            '--log-every=[Number of steps between printed lines. A terminal shows every step and keeps these lines.]:N: ' \
            '--max-skipped=[Number of consecutive skipped steps after which training stops (0\: never). A step is skipped if its loss or a gradient is not finite.]:N: ' \
            '--keep-best[Keep the model of the best evaluation in RUN/best, a Hugging Face folder]' \
            '--export-every=[Number of steps between exports of the model to RUN/checkpoint-STEP, a Hugging Face folder, or of its adapters (default\: 0, none). The last step has one, too.]:N: ' \
            '--export-limit=[Number of these folders to keep (default\: 0, all). The oldest is removed when a newer one is complete. Requires --export-every.]:N: ' \
            '--snapshot-every=[Number of steps between snapshots of the whole run (default\: 0, none). One is also taken before the first step and at the end. Training goes on meanwhile.]:N: ' \
            '*--snapshot-dir=[Existing folder for snapshots (default\: RUN/snapshots). Several folders take turns.]:DIR:_files' \
            '--snapshot-on=[Where snapshots are kept]:snapshot-on:(dir devices hosts)' \
            '--parity=[Number of drives that may be lost with --snapshot-on devices. 2 needs at least 3 devices.]:N: ' \
            '--snapshots=[Number of snapshots to keep. The oldest is removed after the newest has been read back and compared.]:N: ' \
            '--snapshot-bw=[Bytes/s that are read for a snapshot during training\: copying, parity and reading back (default\: 0, while the run'\''s drives have nothing else to do)]:SIZE: ' \
            '--scrub-bw=[Bytes/s that are read in the background\: states, best model and snapshots, to find damage that nobody has met yet (default\: 0, none)]:SIZE: ' \
            '--early-stopping=[Number of evaluations without a better value after which training ends (default\: 0, never). --keep-best compares the same value.]:N: ' \
            '--time-limit=[Time after which this process ends, such as 2h, 90m or 1\:30\:00 (default\: none). Training stops and commits before a step that would not end in time, and --resume goes on. Tokenising stops, too, and the same command goes on.]:TIME: ' \
            '--tensorboard=[Folder for TensorBoard event files of steps and evaluations. With auto\: RUN/tensorboard.]:tensorboard:(none auto)' \
            '--quiet[Print no line per step]' \
            '--lora-rank=[Rank of adapters (LoRA; 0\: none). Training changes only adapters of some matrices (--lora-targets) and a classifier'\''s head. The model'\''s own parameters stay as they are. Usual values\: 8 to 64.]:N: ' \
            '--lora-alpha=[Scale of adapters\: their output is multiplied by alpha / rank (default\: twice the rank)]:X: ' \
            '--lora-dropout=[Dropout rate of the adapters'\'' input, 0 to 99%]:PART: ' \
            '--lora-targets=[Matrices that get adapters, by PEFT'\''s names, such as q_proj,v_proj; or groups of them]:lora-targets:(attention mlp all)' \
            '--lora-rs[Multiply the adapters'\'' output by alpha / sqrt(rank), not by alpha / rank (rsLoRA)]' \
            '--base-dtype=[Precision in which the frozen model'\''s matrices are stored, with --lora-rank]:base-dtype:(same bf16 int8 nf4)' \
            '--base-in-place[Read the frozen model from the safetensors files of --init'\''s folder, where they lie, instead of a copy in the run. They must stay there unchanged.]' \
            '--help[what it takes]' ;;
    finetune)
        _arguments \
            '--config=[Options file, with a line for each option\: name = value. Options of the command line take precedence.]:FILE:_files' \
            '--run=[Folder of the new run]:RUN:_files' \
            '--resume=[Run to continue from its last commit]:RUN:_files' \
            '--from=[With --resume\: the snapshot to go back to, by the number of steps that were done. Options such as --lr, --batch and --seed may change then. What was done beyond it stays as a branch in reports, and a snapshot of the present state is kept.]:STEP: ' \
            '--init=[Hugging Face folder or run to start from, or folder of an adapter to go on with. The head is kept if its number of classes fits.]:HFDIR|RUN:_files' \
            '--base=[Folder of the model that an adapter belongs to (default\: the folder that its adapter_config.json names), or of the base that a run reads in place (default\: where it was)]:HFDIR:_files' \
            '--tokenizer=[Tokenizer folder (default\: --init'\''s)]:DIR:_files' \
            '--data=[Folder of --task, with train.tsv and dev.tsv as in GLUE]:DIR:_files' \
            '--mix=[Weights of several --train-file, such as 0.7,0.3\: their shares of the training'\''s rows. By default all rows are one pool.]:WEIGHT,..:_files' \
            '--task=[GLUE task; chat\: a language model learns the answers of conversations; or dpo\: it learns from pairs of answers, of which one was chosen]:task:(cola sst2 mrpc stsb qqp mnli qnli rte wnli chat dpo)' \
            '*--train-file=[Training rows\: .csv, .tsv, .json or .jsonl (one object a line, or one list), packed (.gz, .zst) or not; a folder of such files; or - (standard input). --mix gives several of them weights. Columns\: label, and sentence or sentence1 and sentence2, or as named by --text-column, --pair-column and --label-column. With --task chat or dpo\: conversations or pairs of answers (.csv, .json, .jsonl).]:FILE|DIR:_files' \
            '*--eval-file=[Evaluation rows, as for --train-file]:FILE|DIR:_files' \
            '--eval-split=[Part of the rows of --train-file to evaluate on instead of training on them, such as 5% or 0.05. A hash of its texts chooses a row, so equal rows stay together.]:PART: ' \
            '--test-file=[Rows to predict, in the format of --train-file. Labels are ignored.]:FILE:_files' \
            '--regression[Treat labels as numbers to approximate (default\: if all are numbers and one has a decimal point or an exponent, 1.0 too)]' \
            '--epochs=[Number of passes over the training rows. --steps overrides it.]:N: ' \
            '--max-seq=[Number of tokens per row (default\: 128, in --task chat and dpo 1024; the model'\''s positions or the tokenizer'\''s model_max_length if fewer). Longer rows are cut off.]:N: ' \
            '--predict[Write predictions for the test rows, with each class'\''s probability, at the end]' \
            '--max-train-samples=[Number of rows to train on, from the first (default\: 0, all)]:N: ' \
            '--max-eval-samples=[Number of rows to evaluate on, from the first (default\: 0, all)]:N: ' \
            '--max-predict-samples=[Number of rows to predict, from the first (default\: 0, all)]:N: ' \
            '--text-column=[Column (JSON\: key) of the text (default\: the run'\''s; otherwise a pair named as in GLUE, sentence, text, or the first two that are neither label nor id). GLUE'\''s pairs\: sentence1 and sentence2, premise and hypothesis, question and sentence, question1 and question2.]:NAME:_files' \
            '--pair-column=[Column of the second text, if rows are pairs]:NAME:_files' \
            '--label-column=[Column of the label (default\: label)]:NAME:_files' \
            '--rows=[Form of the rows\: auto, messages, sharegpt, alpaca, completion, text, preference. With auto, the first row of each file decides.]:rows:(auto messages sharegpt alpaca completion text preference)' \
            '--chat-template=[Chat template\: the name of one that the model'\''s folder has, or a file (default\: the folder'\''s own)]:NAME|FILE:_files' \
            '--loss-on=[Tokens that count in the loss]:loss-on:(answers last all)' \
            '--special-in-text[Let the text of a row spell special tokens, such as <|im_end|> (default\: it is plain text)]' \
            '--date=[Day that a chat template writes (default\: today)]:YYYY-MM-DD:_files' \
            '--packing[Put several examples into each row of --max-seq tokens. Attention and positions stay within an example.]' \
            '--group-by-length[Make batches of rows of similar length, which saves padding]' \
            '--long-rows=[What happens to rows of more than --max-seq tokens]:long-rows:(cut drop refuse)' \
            '--messages-column=[Key of the list of messages (default\: messages, or conversations)]:NAME:_files' \
            '--prompt-column=[Column (JSON\: key) of the prompt (default\: prompt)]:NAME:_files' \
            '--completion-column=[Column (JSON\: key) of the completion (default\: completion)]:NAME:_files' \
            '--loss=[Loss of a pair of answers]:loss:(sigmoid robust ipo)' \
            '--beta=[Strength of the pull towards the model that training began with]:X: ' \
            '--chosen-column=[Key of the chosen answer (default\: chosen)]:NAME:_files' \
            '--rejected-column=[Key of the rejected answer (default\: rejected)]:NAME:_files' \
            '--steps=[Number of training steps. With --resume\: the run'\''s new last step. By default, finetune trains for --epochs.]:N: ' \
            '--schedule-steps=[Length of the learning rate schedule, in steps (default\: --steps). With --resume\: the new length, which applies from the next step on.]:N: ' \
            '--batch=[Number of rows in a micro-batch]:N: ' \
            '--seq=[Number of tokens per row (default\: all positions of the model, but at most 1024 for Llama, Qwen and Gemma). In finetune, --seq means --max-seq.]:N: ' \
            '--grad-accum=[Number of micro-batches per step, summed over all processes]:N: ' \
            '--groups=[Number of gradient groups (0\: one per process). Results depend on the number of groups, not on how many processes share them.]:N: ' \
            '--lr=[Peak learning rate]:X: ' \
            '--min-lr=[Learning rate at the schedule'\''s end]:X: ' \
            '--warmup=[Length of the linear warm-up\: steps, or % of the schedule]:N|PART: ' \
            '--schedule=[Learning rate after the warm-up]:schedule:(cosine linear constant wsd)' \
            '--decay-steps=[Length of the decay at the end of --schedule wsd\: steps, or a part of the schedule (default\: 10%)]:N|PART: ' \
            '--optimizer=[Optimizer, as PyTorch defines it]:optimizer:(adamw adam sgd adagrad)' \
            '--beta1=[Decay rate of the first moment, 0 to 0.9999999. For sgd\: the momentum.]:X: ' \
            '--beta2=[Decay rate of the second moment, 0 to 0.9999999]:X: ' \
            '--eps=[Term added to the root of the second moment]:X: ' \
            '--weight-decay=[Weight decay. Decoupled in adamw; added to the gradient in the other optimizers.]:X: ' \
            '--decay=[Parameters that weight decay applies to]:decay:(matrices all)' \
            '--clip=[Largest gradient norm (0\: no clipping)]:X: ' \
            '--seed=[Seed of initial parameters, data order, masking and dropout]:N: ' \
            '--order=[Order of the training rows]:order:(shuffled sequential)' \
            '--mask-prob=[Fraction of tokens to mask (BERT), 0.1% to 99.9%]:PART: ' \
            '--mask-id=[Id of the mask token (default\: the tokenizer'\''s)]:N: ' \
            '--dropout=[Dropout rate of embeddings, attention and residual branches, 0 to 99% (default\: 0; in finetune, config.json'\''s)]:PART: ' \
            '--label-smoothing=[Fraction of each target'\''s weight that is spread over all words or classes. With --task dpo\: fraction of pairs whose answers are taken to be the wrong way round, below 0.5.]:PART: ' \
            '--neftune-alpha=[Size of the noise that training adds to the words'\'' embeddings (NEFTune; 0\: none). Usual values\: 5 to 15.]:X: ' \
            '--dtype=[Precision of parameters and of inputs of matrix products, in forward and backward. Sums are fp32.]:dtype:(fp32 bf16)' \
            '--mode=[Where optimizer states live and who updates them]:mode:(mem base su su+o su+o+c)' \
            '--csd=[Kind of computational storage device]:csd:(emu null xrt opencl)' \
            '--devices=[Number of devices, made as folders in RUN, 1 to 1024]:N: ' \
            '*--device=[Folder, file or block device of one device]:PATH:_files' \
            '*--act-device=[Where to store offloaded activations\: folder, new file or block device (default\: on the state devices). Temporary. With --resume, none removes the run'\''s.]:act-device:(none)' \
            '*--fpga=[Card of one device, as `siTrain devices` names it (default\: the card next to each drive). Requires --csd xrt. Give one card for every device, or none.]:ADDRESS:_files' \
            '--xclbin=[File with the cards'\'' kernels. Requires --csd xrt.]:FILE:_files' \
            '--force-device[Use block devices even if they carry a signature or another run]' \
            '--device-in-ram[Allow device files on a tmpfs. They add to --host-mem and are lost at power-off.]' \
            '--csd-mem=[Largest accelerator memory per device, 128K or more]:SIZE: ' \
            '--compress=[Fraction of the dense gradient'\''s bytes to send, as its largest values (default\: dense; in --mode su+o+c, 2%)]:PART: ' \
            '--error-feedback[Add gradient values that were not sent to the next step'\''s gradient. Requires --compress.]' \
            '--speculate[Update a block before the gradient norm is known (base, su+o, su+o+c). If clipping applies, the block is updated again. Results are identical; disk space grows 1.4 times.]' \
            '--spare-slots=[Space on the devices for updates that run ahead of commits]:spare-slots:(auto half few)' \
            '--link-bw=[Bandwidth of the modelled host link, bytes/s (default\: 0, unlimited)]:SIZE: ' \
            '--csd-read-bw=[Read speed of each modelled drive, bytes/s (default\: 0, unlimited; one value for all, or one per device, comma-separated). Reads and writes share the drive'\''s time.]:SIZE,..: ' \
            '--csd-write-bw=[Write speed of each modelled drive, bytes/s (default\: 0, unlimited; one value for all, or one per device, comma-separated)]:SIZE,..: ' \
            '--csd-latency=[Latency of a request to a modelled drive, in microseconds (default\: 0). Latencies of several requests overlap.]:X: ' \
            '--topology=[File that describes the modelled links as a tree (docs/internals/topology.md). Replaces --link-bw and --csd-... and is read at each start.]:topology:(none)' \
            '--host-mem=[RAM limit of the whole process, without the arenas of emulated devices (default\: 0, no limit)]:SIZE: ' \
            '--activations=[How backward gets the activations]:activations:(keep recompute offload auto ssdtrain)' \
            '--blas=[Engine of matrix products]:blas:(auto openblas onednn sitrain)' \
            '--threads=[Number of compute threads (default\: 0, all cores that the process may use). mpirun without --bind-to none may leave one or two cores. Except with --blas sitrain, the last bits of results depend on the number.]:N: ' \
            '--disk=[How devices are read and written. null stores nothing.]:disk:(uring sync null)' \
            '--io-timeout=[Seconds without a sign of life from a device, or from the files of --base-in-place, until the run ends (0\: never)]:X: ' \
            '--rank-timeout=[Seconds without an answer from another process (mpirun) until training ends (0\: never). Must exceed the time of the slowest process for two layers.]:X: ' \
            '--endurance=[Bytes that can be written to a drive in its life (TBW; default\: unknown). Training warns if the drive would last less than a year.]:SIZE: ' \
            '--durability=[When written states are flushed]:durability:(step none)' \
            '--commit-every=[Number of steps between commits in --mode mem]:N: ' \
            '--eval-every=[Number of steps between evaluations (default\: 0, only at the end; in finetune, one epoch)]:N: ' \
            '--log-every=[Number of steps between printed lines. A terminal shows every step and keeps these lines.]:N: ' \
            '--max-skipped=[Number of consecutive skipped steps after which training stops (0\: never). A step is skipped if its loss or a gradient is not finite.]:N: ' \
            '--keep-best[Keep the model of the best evaluation in RUN/best, a Hugging Face folder]' \
            '--export-every=[Number of steps between exports of the model to RUN/checkpoint-STEP, a Hugging Face folder, or of its adapters (default\: 0, none). The last step has one, too.]:N: ' \
            '--export-limit=[Number of these folders to keep (default\: 0, all). The oldest is removed when a newer one is complete. Requires --export-every.]:N: ' \
            '--snapshot-every=[Number of steps between snapshots of the whole run (default\: 0, none). One is also taken before the first step and at the end. Training goes on meanwhile.]:N: ' \
            '*--snapshot-dir=[Existing folder for snapshots (default\: RUN/snapshots). Several folders take turns.]:DIR:_files' \
            '--snapshot-on=[Where snapshots are kept]:snapshot-on:(dir devices hosts)' \
            '--parity=[Number of drives that may be lost with --snapshot-on devices. 2 needs at least 3 devices.]:N: ' \
            '--snapshots=[Number of snapshots to keep. The oldest is removed after the newest has been read back and compared.]:N: ' \
            '--snapshot-bw=[Bytes/s that are read for a snapshot during training\: copying, parity and reading back (default\: 0, while the run'\''s drives have nothing else to do)]:SIZE: ' \
            '--scrub-bw=[Bytes/s that are read in the background\: states, best model and snapshots, to find damage that nobody has met yet (default\: 0, none)]:SIZE: ' \
            '--early-stopping=[Number of evaluations without a better value after which training ends (default\: 0, never). --keep-best compares the same value.]:N: ' \
            '--time-limit=[Time after which this process ends, such as 2h, 90m or 1\:30\:00 (default\: none). Training stops and commits before a step that would not end in time, and --resume goes on. Tokenising stops, too, and the same command goes on.]:TIME: ' \
            '--tensorboard=[Folder for TensorBoard event files of steps and evaluations. With auto\: RUN/tensorboard.]:tensorboard:(none auto)' \
            '--quiet[Print no line per step]' \
            '--lora-rank=[Rank of adapters (LoRA; 0\: none). Training changes only adapters of some matrices (--lora-targets) and a classifier'\''s head. The model'\''s own parameters stay as they are. Usual values\: 8 to 64.]:N: ' \
            '--lora-alpha=[Scale of adapters\: their output is multiplied by alpha / rank (default\: twice the rank)]:X: ' \
            '--lora-dropout=[Dropout rate of the adapters'\'' input, 0 to 99%]:PART: ' \
            '--lora-targets=[Matrices that get adapters, by PEFT'\''s names, such as q_proj,v_proj; or groups of them]:lora-targets:(attention mlp all)' \
            '--lora-rs[Multiply the adapters'\'' output by alpha / sqrt(rank), not by alpha / rank (rsLoRA)]' \
            '--base-dtype=[Precision in which the frozen model'\''s matrices are stored, with --lora-rank]:base-dtype:(same bf16 int8 nf4)' \
            '--base-in-place[Read the frozen model from the safetensors files of --init'\''s folder, where they lie, instead of a copy in the run. They must stay there unchanged.]' \
            '--help[what it takes]' ;;
    eval)
        _arguments \
            ':RUN|HFDIR:_files' \
            '*--data=[Token file, text, rows with a text, a folder of these, or - (standard input) to evaluate on. Several are read in order. With --task\: the task'\''s folder.]:FILE|DIR:_files' \
            '--data-format=[Format of the data file]:data-format:(auto text u16 u32)' \
            '--tokenizer=[Tokenizer folder for texts (default\: the model'\''s; must not differ from it)]:DIR:_files' \
            '--task=[GLUE task of a classifier; chat or dpo\: the rows of a language model (default\: as it was trained)]:task:(cola sst2 mrpc stsb qqp mnli qnli rte wnli chat dpo)' \
            '*--eval-file=[Evaluation rows, in the format of finetune'\''s --train-file. Conversations may come from several files.]:FILE:_files' \
            '--reference=[Model that a training on preferences began with, for rewards (--task dpo)]:RUN|HFDIR:_files' \
            '--test-file=[Rows to predict, in the format of finetune'\''s --train-file]:FILE:_files' \
            '--predict=[File for predictions of the test rows, with each class'\''s probability. An existing file is replaced only if eval --predict wrote it.]:FILE:_files' \
            '--max-seq=[Number of tokens per row of --eval-file or --task (default\: the run'\''s of conversations; otherwise finetune'\''s). Longer rows are cut off.]:N: ' \
            '--mask-prob=[Fraction of tokens to mask (BERT), 0.1% to 99.9% (default\: as in training, or 15%)]:PART: ' \
            '--mask-id=[Id of the mask token (default\: the tokenizer'\''s)]:N: ' \
            '--max-eval-samples=[Number of rows to evaluate on, from the first (default\: 0, all)]:N: ' \
            '--max-predict-samples=[Number of rows to predict, from the first (default\: 0, all)]:N: ' \
            '--text-column=[Column (JSON\: key) of the text (default\: the run'\''s; otherwise a pair named as in GLUE, sentence, text, or the first two that are neither label nor id). GLUE'\''s pairs\: sentence1 and sentence2, premise and hypothesis, question and sentence, question1 and question2.]:NAME:_files' \
            '--pair-column=[Column of the second text, if rows are pairs]:NAME:_files' \
            '--label-column=[Column of the label (default\: label)]:NAME:_files' \
            '--rows=[Form of the rows\: auto, messages, sharegpt, alpaca, completion, text, preference. With auto, the first row of each file decides.]:rows:(auto messages sharegpt alpaca completion text preference)' \
            '--chat-template=[Chat template\: the name of one that the model'\''s folder has, or a file (default\: the folder'\''s own)]:NAME|FILE:_files' \
            '--loss-on=[Tokens that count in the loss]:loss-on:(answers last all)' \
            '--special-in-text[Let the text of a row spell special tokens, such as <|im_end|> (default\: it is plain text)]' \
            '--date=[Day that a chat template writes (default\: today)]:YYYY-MM-DD:_files' \
            '--packing[Put several examples into each row of --max-seq tokens. Attention and positions stay within an example.]' \
            '--group-by-length[Make batches of rows of similar length, which saves padding]' \
            '--long-rows=[What happens to rows of more than --max-seq tokens]:long-rows:(cut drop refuse)' \
            '--messages-column=[Key of the list of messages (default\: messages, or conversations)]:NAME:_files' \
            '--prompt-column=[Column (JSON\: key) of the prompt (default\: prompt)]:NAME:_files' \
            '--completion-column=[Column (JSON\: key) of the completion (default\: completion)]:NAME:_files' \
            '--loss=[Loss of a pair of answers]:loss:(sigmoid robust ipo)' \
            '--beta=[Strength of the pull towards the model that training began with]:X: ' \
            '--chosen-column=[Key of the chosen answer (default\: chosen)]:NAME:_files' \
            '--rejected-column=[Key of the rejected answer (default\: rejected)]:NAME:_files' \
            '--best[Use the best model, kept by --keep-best in RUN/best (default\: if there is one)]' \
            '--last[Use the model after the last step]' \
            '--step=[Use the snapshot that was taken after this step (siTrain snapshots lists them)]:N: ' \
            '--base=[Folder of the model that an adapter belongs to (default\: the folder that its adapter_config.json names), or of the base that a run reads in place (default\: where it was)]:HFDIR:_files' \
            '--seq=[Number of tokens per row (default\: all positions of the model, but at most 1024 for Llama, Qwen and Gemma)]:N: ' \
            '--batch=[Number of rows computed together]:N: ' \
            '--dtype=[Precision of parameters and of inputs of matrix products (default\: the run'\''s; for a folder, bf16). Sums are fp32.]:dtype:(fp32 bf16)' \
            '--host-mem=[RAM limit of the whole process, without the arenas of emulated devices (default\: 0, no limit)]:SIZE: ' \
            '--blas=[Engine of matrix products]:blas:(auto openblas onednn sitrain)' \
            '--threads=[Number of compute threads (default\: 0, all cores that the process may use). mpirun without --bind-to none may leave one or two cores. Except with --blas sitrain, the last bits of results depend on the number.]:N: ' \
            '--disk=[How devices are read and written. null stores nothing.]:disk:(uring sync null)' \
            '--help[what it takes]' ;;
    generate)
        _arguments \
            ':RUN|HFDIR:_files' \
            '*--prompt=[Start of the text (default\: the tokenizer'\''s start token, or <|endoftext|>)]:TEXT:_files' \
            '--prompt-file=[File with one prompt per line, or - (standard input)]:FILE:_files' \
            '--chat[Hold a conversation line by line, in the words of the model'\''s chat template; a model without one continues the text. Ctrl-C stops an answer; an empty line ends the conversation.]' \
            '--system=[System message of the conversation (--chat)]:TEXT:_files' \
            '--chat-template=[Chat template\: the name of one that the model'\''s folder has, or a file (default\: the folder'\''s own)]:NAME|FILE:_files' \
            '--date=[Day that a chat template writes (default\: today)]:YYYY-MM-DD:_files' \
            '--tokens=[Largest number of tokens to generate (default\: 100, or fewer if the positions run out)]:N: ' \
            '*--stop=[Text to stop before]:TEXT:_files' \
            '--temperature=[Sampling temperature (0\: always the likeliest token; default\: generation_config.json'\''s, otherwise 1)]:X: ' \
            '--top-k=[Number of likeliest tokens to sample from (0\: all; default\: generation_config.json'\''s, otherwise all)]:N: ' \
            '--top-p=[Total probability of the likeliest tokens to sample from, 0 to 1 (0 or 1\: all; default\: generation_config.json'\''s, otherwise 1)]:PART: ' \
            '--min-p=[Smallest probability of a token to sample, as a part of the likeliest token'\''s, 0 to 1 (0\: all; default\: generation_config.json'\''s, otherwise 0)]:PART: ' \
            '--repetition-penalty=[Factor by which tokens of the text so far become less likely, 0.01 to 100 (1\: no penalty; default\: generation_config.json'\''s, otherwise 1)]:X: ' \
            '--seed=[Seed of the sampling]:N: ' \
            '--tokenizer=[Tokenizer folder (default\: the model'\''s; must not differ from it)]:DIR:_files' \
            '--best[Use the best model, kept by --keep-best in RUN/best (default\: if there is one)]' \
            '--last[Use the model after the last step]' \
            '--step=[Use the snapshot that was taken after this step (siTrain snapshots lists them)]:N: ' \
            '--base=[Folder of the model that an adapter belongs to (default\: the folder that its adapter_config.json names), or of the base that a run reads in place (default\: where it was)]:HFDIR:_files' \
            '--seq=[Number of tokens per row (default\: all positions of the model, but at most 1024 for Llama, Qwen and Gemma)]:N: ' \
            '--batch=[Number of rows computed together]:N: ' \
            '--dtype=[Precision of parameters and of inputs of matrix products (default\: the run'\''s; for a folder, bf16). Sums are fp32.]:dtype:(fp32 bf16)' \
            '--host-mem=[RAM limit of the whole process, without the arenas of emulated devices (default\: 0, no limit)]:SIZE: ' \
            '--blas=[Engine of matrix products]:blas:(auto openblas onednn sitrain)' \
            '--threads=[Number of compute threads (default\: 0, all cores that the process may use). mpirun without --bind-to none may leave one or two cores. Except with --blas sitrain, the last bits of results depend on the number.]:N: ' \
            '--disk=[How devices are read and written. null stores nothing.]:disk:(uring sync null)' \
            '--help[what it takes]' ;;
    prepare)
        _arguments \
            '*:FILE:_files' \
            '--out=[Token file to write; with --train-tokenizer, tokenizer folder to write. It is replaced only if siTrain prepare wrote it. With --render, new file to write (default\: stdout)]:PATH:_files' \
            '--tokenizer=[Tokenizer folder\: tokenizer.json, vocab.json and merges.txt, or BERT'\''s vocab.txt]:DIR:_files' \
            '--train-tokenizer[Train a byte-level BPE tokenizer on the texts]' \
            '--data-format=[Format of the data file]:data-format:(auto text u16 u32)' \
            '--text-column=[Column (JSON\: key) of the text in rows (default\: text)]:NAME:_files' \
            '--eval-split=[Part of the documents, such as 5%, that goes to --eval-out instead. A hash of a document decides, so it is always on the same side. A row is a document. A text is cut at line ends into documents of 4 KiB or more.]:PART: ' \
            '--eval-out=[Token file of the part that --eval-split chooses]:PATH:_files' \
            '--threads=[Number of threads (default\: 0, all cores that the process may use; at most 32). The tokens do not depend on it.]:N: ' \
            '--vocab=[Vocabulary size of the tokenizer to train, 257 to 1048576]:N: ' \
            '--render[Print each row as the model'\''s chat template writes it, as a JSON string per line]' \
            '--show=[Print the first N rows of each file as tokens, with those that count in the loss\: green on a terminal, otherwise lines of id, + or -, and text]:N: ' \
            '--init=[Run or model folder with the chat template and the names of the special tokens]:RUN|HFDIR:_files' \
            '--chat-template=[Chat template\: a name if the model has several, or a file (default\: the model'\''s)]:NAME|FILE:_files' \
            '--rows=[Form of the rows (auto\: by the keys of the first row)]:rows:(auto messages sharegpt alpaca completion text preference)' \
            '--messages-column=[Key of the list of messages (default\: messages, or conversations)]:NAME:_files' \
            '--prompt-column=[Column (JSON\: key) of the prompt (default\: prompt)]:NAME:_files' \
            '--completion-column=[Column (JSON\: key) of the completion (default\: completion)]:NAME:_files' \
            '--generation-prompt[Add what the template writes before an answer]' \
            '--bos=[Template'\''s bos_token (default\: the model'\''s)]:TEXT:_files' \
            '--eos=[Template'\''s eos_token (default\: the model'\''s)]:TEXT:_files' \
            '--loss-on=[Tokens that count in the loss]:loss-on:(answers last all)' \
            '--special-in-text[Let the text of a row spell special tokens, such as <|im_end|> (default\: it is plain text)]' \
            '--date=[Day that a template takes for today (default\: today)]:YYYY-MM-DD:_files' \
            '--help[what it takes]' ;;
    import)
        _arguments \
            ':HFDIR:_files' \
            ':RUN:_files' \
            '--steps=[Number of training steps. With --resume\: the run'\''s new last step. By default, finetune trains for --epochs.]:N: ' \
            '--schedule-steps=[Length of the learning rate schedule, in steps (default\: --steps). With --resume\: the new length, which applies from the next step on.]:N: ' \
            '--batch=[Number of rows in a micro-batch]:N: ' \
            '--seq=[Number of tokens per row (default\: all positions of the model, but at most 1024 for Llama, Qwen and Gemma). In finetune, --seq means --max-seq.]:N: ' \
            '--grad-accum=[Number of micro-batches per step, summed over all processes]:N: ' \
            '--groups=[Number of gradient groups (0\: one per process). Results depend on the number of groups, not on how many processes share them.]:N: ' \
            '--lr=[Peak learning rate]:X: ' \
            '--min-lr=[Learning rate at the schedule'\''s end]:X: ' \
            '--warmup=[Length of the linear warm-up\: steps, or % of the schedule]:N|PART: ' \
            '--schedule=[Learning rate after the warm-up]:schedule:(cosine linear constant wsd)' \
            '--decay-steps=[Length of the decay at the end of --schedule wsd\: steps, or a part of the schedule (default\: 10%)]:N|PART: ' \
            '--optimizer=[Optimizer, as PyTorch defines it]:optimizer:(adamw adam sgd adagrad)' \
            '--beta1=[Decay rate of the first moment, 0 to 0.9999999. For sgd\: the momentum.]:X: ' \
            '--beta2=[Decay rate of the second moment, 0 to 0.9999999]:X: ' \
            '--eps=[Term added to the root of the second moment]:X: ' \
            '--weight-decay=[Weight decay. Decoupled in adamw; added to the gradient in the other optimizers.]:X: ' \
            '--decay=[Parameters that weight decay applies to]:decay:(matrices all)' \
            '--clip=[Largest gradient norm (0\: no clipping)]:X: ' \
            '--seed=[Seed of initial parameters, data order, masking and dropout]:N: ' \
            '--order=[Order of the training rows]:order:(shuffled sequential)' \
            '--mask-prob=[Fraction of tokens to mask (BERT), 0.1% to 99.9%]:PART: ' \
            '--mask-id=[Id of the mask token (default\: the tokenizer'\''s)]:N: ' \
            '--dropout=[Dropout rate of embeddings, attention and residual branches, 0 to 99% (default\: 0; in finetune, config.json'\''s)]:PART: ' \
            '--label-smoothing=[Fraction of each target'\''s weight that is spread over all words or classes. With --task dpo\: fraction of pairs whose answers are taken to be the wrong way round, below 0.5.]:PART: ' \
            '--neftune-alpha=[Size of the noise that training adds to the words'\'' embeddings (NEFTune; 0\: none). Usual values\: 5 to 15.]:X: ' \
            '--dtype=[Precision of parameters and of inputs of matrix products, in forward and backward. Sums are fp32.]:dtype:(fp32 bf16)' \
            '--mode=[Where optimizer states live and who updates them]:mode:(mem base su su+o su+o+c)' \
            '--csd=[Kind of computational storage device]:csd:(emu null xrt opencl)' \
            '--devices=[Number of devices, made as folders in RUN, 1 to 1024]:N: ' \
            '*--device=[Folder, file or block device of one device]:PATH:_files' \
            '*--act-device=[Where to store offloaded activations\: folder, new file or block device (default\: on the state devices). Temporary. With --resume, none removes the run'\''s.]:act-device:(none)' \
            '*--fpga=[Card of one device, as `siTrain devices` names it (default\: the card next to each drive). Requires --csd xrt. Give one card for every device, or none.]:ADDRESS:_files' \
            '--xclbin=[File with the cards'\'' kernels. Requires --csd xrt.]:FILE:_files' \
            '--force-device[Use block devices even if they carry a signature or another run]' \
            '--device-in-ram[Allow device files on a tmpfs. They add to --host-mem and are lost at power-off.]' \
            '--csd-mem=[Largest accelerator memory per device, 128K or more]:SIZE: ' \
            '--compress=[Fraction of the dense gradient'\''s bytes to send, as its largest values (default\: dense; in --mode su+o+c, 2%)]:PART: ' \
            '--error-feedback[Add gradient values that were not sent to the next step'\''s gradient. Requires --compress.]' \
            '--speculate[Update a block before the gradient norm is known (base, su+o, su+o+c). If clipping applies, the block is updated again. Results are identical; disk space grows 1.4 times.]' \
            '--spare-slots=[Space on the devices for updates that run ahead of commits]:spare-slots:(auto half few)' \
            '--link-bw=[Bandwidth of the modelled host link, bytes/s (default\: 0, unlimited)]:SIZE: ' \
            '--csd-read-bw=[Read speed of each modelled drive, bytes/s (default\: 0, unlimited; one value for all, or one per device, comma-separated). Reads and writes share the drive'\''s time.]:SIZE,..: ' \
            '--csd-write-bw=[Write speed of each modelled drive, bytes/s (default\: 0, unlimited; one value for all, or one per device, comma-separated)]:SIZE,..: ' \
            '--csd-latency=[Latency of a request to a modelled drive, in microseconds (default\: 0). Latencies of several requests overlap.]:X: ' \
            '--topology=[File that describes the modelled links as a tree (docs/internals/topology.md). Replaces --link-bw and --csd-... and is read at each start.]:topology:(none)' \
            '--host-mem=[RAM limit of the whole process, without the arenas of emulated devices (default\: 0, no limit)]:SIZE: ' \
            '--activations=[How backward gets the activations]:activations:(keep recompute offload auto ssdtrain)' \
            '--blas=[Engine of matrix products]:blas:(auto openblas onednn sitrain)' \
            '--threads=[Number of compute threads (default\: 0, all cores that the process may use). mpirun without --bind-to none may leave one or two cores. Except with --blas sitrain, the last bits of results depend on the number.]:N: ' \
            '--disk=[How devices are read and written. null stores nothing.]:disk:(uring sync null)' \
            '--io-timeout=[Seconds without a sign of life from a device, or from the files of --base-in-place, until the run ends (0\: never)]:X: ' \
            '--rank-timeout=[Seconds without an answer from another process (mpirun) until training ends (0\: never). Must exceed the time of the slowest process for two layers.]:X: ' \
            '--endurance=[Bytes that can be written to a drive in its life (TBW; default\: unknown). Training warns if the drive would last less than a year.]:SIZE: ' \
            '--durability=[When written states are flushed]:durability:(step none)' \
            '--commit-every=[Number of steps between commits in --mode mem]:N: ' \
            '--eval-every=[Number of steps between evaluations (default\: 0, only at the end; in finetune, one epoch)]:N: ' \
            '--log-every=[Number of steps between printed lines. A terminal shows every step and keeps these lines.]:N: ' \
            '--max-skipped=[Number of consecutive skipped steps after which training stops (0\: never). A step is skipped if its loss or a gradient is not finite.]:N: ' \
            '--keep-best[Keep the model of the best evaluation in RUN/best, a Hugging Face folder]' \
            '--export-every=[Number of steps between exports of the model to RUN/checkpoint-STEP, a Hugging Face folder, or of its adapters (default\: 0, none). The last step has one, too.]:N: ' \
            '--export-limit=[Number of these folders to keep (default\: 0, all). The oldest is removed when a newer one is complete. Requires --export-every.]:N: ' \
            '--snapshot-every=[Number of steps between snapshots of the whole run (default\: 0, none). One is also taken before the first step and at the end. Training goes on meanwhile.]:N: ' \
            '*--snapshot-dir=[Existing folder for snapshots (default\: RUN/snapshots). Several folders take turns.]:DIR:_files' \
            '--snapshot-on=[Where snapshots are kept]:snapshot-on:(dir devices hosts)' \
            '--parity=[Number of drives that may be lost with --snapshot-on devices. 2 needs at least 3 devices.]:N: ' \
            '--snapshots=[Number of snapshots to keep. The oldest is removed after the newest has been read back and compared.]:N: ' \
            '--snapshot-bw=[Bytes/s that are read for a snapshot during training\: copying, parity and reading back (default\: 0, while the run'\''s drives have nothing else to do)]:SIZE: ' \
            '--scrub-bw=[Bytes/s that are read in the background\: states, best model and snapshots, to find damage that nobody has met yet (default\: 0, none)]:SIZE: ' \
            '--early-stopping=[Number of evaluations without a better value after which training ends (default\: 0, never). --keep-best compares the same value.]:N: ' \
            '--time-limit=[Time after which this process ends, such as 2h, 90m or 1\:30\:00 (default\: none). Training stops and commits before a step that would not end in time, and --resume goes on. Tokenising stops, too, and the same command goes on.]:TIME: ' \
            '--tensorboard=[Folder for TensorBoard event files of steps and evaluations. With auto\: RUN/tensorboard.]:tensorboard:(none auto)' \
            '--quiet[Print no line per step]' \
            '--help[what it takes]' ;;
    export)
        _arguments \
            ':RUN:_files' \
            ':HFDIR:_files' \
            '--dtype=[Precision of the tensors]:dtype:(fp32 bf16 fp16)' \
            '--max-shard-size=[Largest size of the tensors in one file (0\: one file). A larger model becomes model-00001-of-0000N.safetensors with an index, as in transformers.]:SIZE: ' \
            '--adapter[Write the adapters alone, as a folder that `peft` loads (default\: merged into their model)]' \
            '--base=[Folder of the model that an adapter belongs to (default\: the folder that its adapter_config.json names), or of the base that a run reads in place (default\: where it was)]:HFDIR:_files' \
            '--gguf-type=[Type of the matrices in a GGUF file. q8_0 takes about a byte for each parameter; rows that are no multiple of 32 stay f16. Vectors are f32.]:gguf-type:(f16 bf16 f32 q8_0)' \
            '--best[Use the best model, kept by --keep-best in RUN/best (default\: if there is one)]' \
            '--last[Use the model after the last step]' \
            '--step=[Use the snapshot that was taken after this step (siTrain snapshots lists them)]:N: ' \
            '--help[what it takes]' ;;
    plan)
        _arguments \
            '--config=[Options file, with a line for each option\: name = value. Options of the command line take precedence.]:FILE:_files' \
            '--run=[Folder of the planned run. The probe measures its disk.]:RUN:_files' \
            '--probe=[How the time of a step is found]:probe:(on off)' \
            '--machine=[File that describes the machine to predict step times for (docs/lab/scaling-model.md). siTrain bench --save writes one. Nothing is measured. --topology, or --link-bw and --csd-..., describe the links.]:FILE:_files' \
            '--compare[Predict every mode that has devices. Requires --machine.]' \
            '--ranks=[Number of hosts like this one that train together (mpirun -n), 1 to 65535. Memory, traffic and storage are given for rank 0.]:N: ' \
            '--network-bw=[Network bandwidth of each rank in each direction, bytes/s, as siTrain bench network measures it (default\: 0, unlimited)]:SIZE: ' \
            '--network-latency=[Network latency, in microseconds]:US: ' \
            '--traffic[Print the bytes per step that cross each link and that are written, by class; with --snapshot-every, also those of a snapshot]' \
            '--json=[File for the prediction as JSON (-\: stdout, instead of the plan). Only such a file is replaced.]:FILE:_files' \
            '*--data=[Training data, or folder of --task. The plan does not depend on it, but plan refuses data that pretrain refuses by their beginning.]:FILE|DIR:_files' \
            '--mix=[Weights of several --data or --train-file. The plan does not depend on them.]:WEIGHT,..:_files' \
            '*--eval-data=[Evaluation data, as --data]:FILE|DIR:_files' \
            '--data-format=[Format of the data file]:data-format:(auto text u16 u32)' \
            '--tokenizer=[Tokenizer folder, which gives the vocabulary size]:DIR:_files' \
            '--task=[GLUE task; chat\: a language model learns the answers of conversations; or dpo\: it learns from pairs of answers, of which one was chosen]:task:(cola sst2 mrpc stsb qqp mnli qnli rte wnli chat dpo)' \
            '*--train-file=[Training rows\: .csv, .tsv, .json or .jsonl (one object a line, or one list), packed (.gz, .zst) or not; a folder of such files; or - (standard input). --mix gives several of them weights. Columns\: label, and sentence or sentence1 and sentence2, or as named by --text-column, --pair-column and --label-column. With --task chat or dpo\: conversations or pairs of answers (.csv, .json, .jsonl).]:FILE|DIR:_files' \
            '*--eval-file=[Evaluation rows, as for --train-file]:FILE|DIR:_files' \
            '--eval-split=[Part of the rows of --train-file to evaluate on instead of training on them, such as 5% or 0.05. A hash of its texts chooses a row, so equal rows stay together.]:PART: ' \
            '--test-file=[Rows to predict, in the format of --train-file. Labels are ignored.]:FILE:_files' \
            '--regression[Treat labels as numbers to approximate (default\: if all are numbers and one has a decimal point or an exponent, 1.0 too)]' \
            '--epochs=[Number of passes over the training rows. --steps overrides it.]:N: ' \
            '--max-seq=[Number of tokens per row (default\: 128, in --task chat and dpo 1024; the model'\''s positions or the tokenizer'\''s model_max_length if fewer). Longer rows are cut off.]:N: ' \
            '--predict[Write predictions for the test rows, with each class'\''s probability, at the end]' \
            '--max-train-samples=[Number of rows to train on, from the first (default\: 0, all)]:N: ' \
            '--max-eval-samples=[Number of rows to evaluate on, from the first (default\: 0, all)]:N: ' \
            '--max-predict-samples=[Number of rows to predict, from the first (default\: 0, all)]:N: ' \
            '--text-column=[Column (JSON\: key) of the text (default\: the run'\''s; otherwise a pair named as in GLUE, sentence, text, or the first two that are neither label nor id). GLUE'\''s pairs\: sentence1 and sentence2, premise and hypothesis, question and sentence, question1 and question2.]:NAME:_files' \
            '--pair-column=[Column of the second text, if rows are pairs]:NAME:_files' \
            '--label-column=[Column of the label (default\: label)]:NAME:_files' \
            '--rows=[Form of the rows\: auto, messages, sharegpt, alpaca, completion, text, preference. With auto, the first row of each file decides.]:rows:(auto messages sharegpt alpaca completion text preference)' \
            '--chat-template=[Chat template\: the name of one that the model'\''s folder has, or a file (default\: the folder'\''s own)]:NAME|FILE:_files' \
            '--loss-on=[Tokens that count in the loss]:loss-on:(answers last all)' \
            '--special-in-text[Let the text of a row spell special tokens, such as <|im_end|> (default\: it is plain text)]' \
            '--date=[Day that a chat template writes (default\: today)]:YYYY-MM-DD:_files' \
            '--packing[Put several examples into each row of --max-seq tokens. Attention and positions stay within an example.]' \
            '--group-by-length[Make batches of rows of similar length, which saves padding]' \
            '--long-rows=[What happens to rows of more than --max-seq tokens]:long-rows:(cut drop refuse)' \
            '--messages-column=[Key of the list of messages (default\: messages, or conversations)]:NAME:_files' \
            '--prompt-column=[Column (JSON\: key) of the prompt (default\: prompt)]:NAME:_files' \
            '--completion-column=[Column (JSON\: key) of the completion (default\: completion)]:NAME:_files' \
            '--loss=[Loss of a pair of answers]:loss:(sigmoid robust ipo)' \
            '--beta=[Strength of the pull towards the model that training began with]:X: ' \
            '--chosen-column=[Key of the chosen answer (default\: chosen)]:NAME:_files' \
            '--rejected-column=[Key of the rejected answer (default\: rejected)]:NAME:_files' \
            '--init=[Hugging Face folder of the model to start from, or of an adapter to go on with. bench, and plan of a fine-tuning, take a run, too.]:HFDIR:_files' \
            '--base=[Folder of the model that an adapter belongs to (default\: the folder that its adapter_config.json names), or of the base that a run reads in place (default\: where it was)]:HFDIR:_files' \
            '--model=[Size of a model to start from, with random parameters\: gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt2-2.7b, smollm2-135m, smollm2-360m, smollm2-1.7b, llama-3.2-1b, llama-3.2-3b, llama-3.1-8b, qwen2.5-0.5b, qwen2.5-1.5b, qwen2.5-3b, qwen2.5-7b, gemma-3-270m, gemma-3-1b, bert-base, bert-large, roberta-base, roberta-large. Size options override its values.]:model:(gpt2 gpt2-medium gpt2-large gpt2-xl gpt2-2.7b smollm2-135m smollm2-360m smollm2-1.7b llama-3.2-1b llama-3.2-3b llama-3.1-8b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b gemma-3-270m gemma-3-1b bert-base bert-large roberta-base roberta-large)' \
            '--n-layer=[Number of layers (default\: --model'\''s). Without --model, --n-layer, --n-head and --n-embd describe a GPT-2.]:N: ' \
            '--n-head=[Number of attention heads (default\: --model'\''s). Must divide --n-embd, unless --head-dim is given.]:N: ' \
            '--n-kv-head=[Number of key and value heads (default\: --model'\''s). Must divide --n-head. GPT-2, BERT and RoBERTa have as many as attention heads.]:N: ' \
            '--head-dim=[Size of one attention head (default\: --model'\''s; if --n-embd or --n-head is given, width / heads)]:N: ' \
            '--n-embd=[Width of embeddings and residual stream (default\: --model'\''s)]:N: ' \
            '--n-inner=[MLP width (default\: --model'\''s; in GPT-2, 4 times --n-embd)]:N: ' \
            '--vocab=[Vocabulary size (default\: the tokenizer'\''s; without a tokenizer, --model'\''s or 50257)]:N: ' \
            '--steps=[Number of training steps. With --resume\: the run'\''s new last step. By default, finetune trains for --epochs.]:N: ' \
            '--schedule-steps=[Length of the learning rate schedule, in steps (default\: --steps). With --resume\: the new length, which applies from the next step on.]:N: ' \
            '--batch=[Number of rows in a micro-batch]:N: ' \
            '--seq=[Number of tokens per row (default\: all positions of the model, but at most 1024 for Llama, Qwen and Gemma). In finetune, --seq means --max-seq.]:N: ' \
            '--grad-accum=[Number of micro-batches per step, summed over all processes]:N: ' \
            '--groups=[Number of gradient groups (0\: one per process). Results depend on the number of groups, not on how many processes share them.]:N: ' \
            '--lr=[Peak learning rate]:X: ' \
            '--min-lr=[Learning rate at the schedule'\''s end]:X: ' \
            '--warmup=[Length of the linear warm-up\: steps, or % of the schedule]:N|PART: ' \
            '--schedule=[Learning rate after the warm-up]:schedule:(cosine linear constant wsd)' \
            '--decay-steps=[Length of the decay at the end of --schedule wsd\: steps, or a part of the schedule (default\: 10%)]:N|PART: ' \
            '--optimizer=[Optimizer, as PyTorch defines it]:optimizer:(adamw adam sgd adagrad)' \
            '--beta1=[Decay rate of the first moment, 0 to 0.9999999. For sgd\: the momentum.]:X: ' \
            '--beta2=[Decay rate of the second moment, 0 to 0.9999999]:X: ' \
            '--eps=[Term added to the root of the second moment]:X: ' \
            '--weight-decay=[Weight decay. Decoupled in adamw; added to the gradient in the other optimizers.]:X: ' \
            '--decay=[Parameters that weight decay applies to]:decay:(matrices all)' \
            '--clip=[Largest gradient norm (0\: no clipping)]:X: ' \
            '--seed=[Seed of initial parameters, data order, masking and dropout]:N: ' \
            '--order=[Order of the training rows]:order:(shuffled sequential)' \
            '--mask-prob=[Fraction of tokens to mask (BERT), 0.1% to 99.9%]:PART: ' \
            '--mask-id=[Id of the mask token (default\: the tokenizer'\''s)]:N: ' \
            '--dropout=[Dropout rate of embeddings, attention and residual branches, 0 to 99% (default\: 0; in finetune, config.json'\''s)]:PART: ' \
            '--label-smoothing=[Fraction of each target'\''s weight that is spread over all words or classes. With --task dpo\: fraction of pairs whose answers are taken to be the wrong way round, below 0.5.]:PART: ' \
            '--neftune-alpha=[Size of the noise that training adds to the words'\'' embeddings (NEFTune; 0\: none). Usual values\: 5 to 15.]:X: ' \
            '--dtype=[Precision of parameters and of inputs of matrix products, in forward and backward. Sums are fp32.]:dtype:(fp32 bf16)' \
            '--mode=[Where optimizer states live and who updates them]:mode:(mem base su su+o su+o+c)' \
            '--csd=[Kind of computational storage device]:csd:(emu null xrt opencl)' \
            '--devices=[Number of devices, made as folders in RUN, 1 to 1024]:N: ' \
            '*--device=[Folder, file or block device of one device]:PATH:_files' \
            '*--act-device=[Where to store offloaded activations\: folder, new file or block device (default\: on the state devices). Temporary. With --resume, none removes the run'\''s.]:act-device:(none)' \
            '*--fpga=[Card of one device, as `siTrain devices` names it (default\: the card next to each drive). Requires --csd xrt. Give one card for every device, or none.]:ADDRESS:_files' \
            '--xclbin=[File with the cards'\'' kernels. Requires --csd xrt.]:FILE:_files' \
            '--force-device[Use block devices even if they carry a signature or another run]' \
            '--device-in-ram[Allow device files on a tmpfs. They add to --host-mem and are lost at power-off.]' \
            '--csd-mem=[Largest accelerator memory per device, 128K or more]:SIZE: ' \
            '--compress=[Fraction of the dense gradient'\''s bytes to send, as its largest values (default\: dense; in --mode su+o+c, 2%)]:PART: ' \
            '--error-feedback[Add gradient values that were not sent to the next step'\''s gradient. Requires --compress.]' \
            '--speculate[Update a block before the gradient norm is known (base, su+o, su+o+c). If clipping applies, the block is updated again. Results are identical; disk space grows 1.4 times.]' \
            '--spare-slots=[Space on the devices for updates that run ahead of commits]:spare-slots:(auto half few)' \
            '--link-bw=[Bandwidth of the modelled host link, bytes/s (default\: 0, unlimited)]:SIZE: ' \
            '--csd-read-bw=[Read speed of each modelled drive, bytes/s (default\: 0, unlimited; one value for all, or one per device, comma-separated). Reads and writes share the drive'\''s time.]:SIZE,..: ' \
            '--csd-write-bw=[Write speed of each modelled drive, bytes/s (default\: 0, unlimited; one value for all, or one per device, comma-separated)]:SIZE,..: ' \
            '--csd-latency=[Latency of a request to a modelled drive, in microseconds (default\: 0). Latencies of several requests overlap.]:X: ' \
            '--topology=[File that describes the modelled links as a tree (docs/internals/topology.md). Replaces --link-bw and --csd-... and is read at each start.]:topology:(none)' \
            '--host-mem=[RAM limit of the whole process, without the arenas of emulated devices (default\: 0, no limit)]:SIZE: ' \
            '--activations=[How backward gets the activations]:activations:(keep recompute offload auto ssdtrain)' \
            '--blas=[Engine of matrix products]:blas:(auto openblas onednn sitrain)' \
            '--threads=[Number of compute threads (default\: 0, all cores that the process may use). mpirun without --bind-to none may leave one or two cores. Except with --blas sitrain, the last bits of results depend on the number.]:N: ' \
            '--disk=[How devices are read and written. null stores nothing.]:disk:(uring sync null)' \
            '--io-timeout=[Seconds without a sign of life from a device, or from the files of --base-in-place, until the run ends (0\: never)]:X: ' \
            '--rank-timeout=[Seconds without an answer from another process (mpirun) until training ends (0\: never). Must exceed the time of the slowest process for two layers.]:X: ' \
            '--endurance=[Bytes that can be written to a drive in its life (TBW; default\: unknown). Training warns if the drive would last less than a year.]:SIZE: ' \
            '--durability=[When written states are flushed]:durability:(step none)' \
            '--commit-every=[Number of steps between commits in --mode mem]:N: ' \
            '--eval-every=[Number of steps between evaluations (default\: 0, only at the end; in finetune, one epoch)]:N: ' \
            '--log-every=[Number of steps between printed lines. A terminal shows every step and keeps these lines.]:N: ' \
            '--max-skipped=[Number of consecutive skipped steps after which training stops (0\: never). A step is skipped if its loss or a gradient is not finite.]:N: ' \
            '--keep-best[Keep the model of the best evaluation in RUN/best, a Hugging Face folder]' \
            '--export-every=[Number of steps between exports of the model to RUN/checkpoint-STEP, a Hugging Face folder, or of its adapters (default\: 0, none). The last step has one, too.]:N: ' \
            '--export-limit=[Number of these folders to keep (default\: 0, all). The oldest is removed when a newer one is complete. Requires --export-every.]:N: ' \
            '--snapshot-every=[Number of steps between snapshots of the whole run (default\: 0, none). One is also taken before the first step and at the end. Training goes on meanwhile.]:N: ' \
            '*--snapshot-dir=[Existing folder for snapshots (default\: RUN/snapshots). Several folders take turns.]:DIR:_files' \
            '--snapshot-on=[Where snapshots are kept]:snapshot-on:(dir devices hosts)' \
            '--parity=[Number of drives that may be lost with --snapshot-on devices. 2 needs at least 3 devices.]:N: ' \
            '--snapshots=[Number of snapshots to keep. The oldest is removed after the newest has been read back and compared.]:N: ' \
            '--snapshot-bw=[Bytes/s that are read for a snapshot during training\: copying, parity and reading back (default\: 0, while the run'\''s drives have nothing else to do)]:SIZE: ' \
            '--scrub-bw=[Bytes/s that are read in the background\: states, best model and snapshots, to find damage that nobody has met yet (default\: 0, none)]:SIZE: ' \
            '--early-stopping=[Number of evaluations without a better value after which training ends (default\: 0, never). --keep-best compares the same value.]:N: ' \
            '--time-limit=[Time after which this process ends, such as 2h, 90m or 1\:30\:00 (default\: none). Training stops and commits before a step that would not end in time, and --resume goes on. Tokenising stops, too, and the same command goes on.]:TIME: ' \
            '--tensorboard=[Folder for TensorBoard event files of steps and evaluations. With auto\: RUN/tensorboard.]:tensorboard:(none auto)' \
            '--quiet[Print no line per step]' \
            '--lora-rank=[Rank of adapters (LoRA; 0\: none). Training changes only adapters of some matrices (--lora-targets) and a classifier'\''s head. The model'\''s own parameters stay as they are. Usual values\: 8 to 64.]:N: ' \
            '--lora-alpha=[Scale of adapters\: their output is multiplied by alpha / rank (default\: twice the rank)]:X: ' \
            '--lora-dropout=[Dropout rate of the adapters'\'' input, 0 to 99%]:PART: ' \
            '--lora-targets=[Matrices that get adapters, by PEFT'\''s names, such as q_proj,v_proj; or groups of them]:lora-targets:(attention mlp all)' \
            '--lora-rs[Multiply the adapters'\'' output by alpha / sqrt(rank), not by alpha / rank (rsLoRA)]' \
            '--base-dtype=[Precision in which the frozen model'\''s matrices are stored, with --lora-rank]:base-dtype:(same bf16 int8 nf4)' \
            '--base-in-place[Read the frozen model from the safetensors files of --init'\''s folder, where they lie, instead of a copy in the run. They must stay there unchanged.]' \
            '--help[what it takes]' ;;
    report)
        _arguments \
            '*:RUN:_files' \
            '--by=[What to sort several runs by\: an evaluation (eval_loss, eval_accuracy or another measure), train_loss, tokens_per_second, or a setting such as lr. Smaller losses and larger accuracies come first. (default\: the order given)]:NAME:_files' \
            '--json[Print JSON]' \
            '--csv[Print lines of section,row,field,value. With several runs, the run comes first.]' \
            '--html=[File for a page with all figures and plots. Only such a page is replaced.]:FILE:_files' \
            '--sql=[Question to answer as a table, or as --csv or --json. list\: print all questions.]:sql:(steps times curve breakdown breakdown_serial breakdown_steps phases waits update timeline traffic written overlap bandwidth drives devices memory results evals choices skipped notices processes settings list)' \
            '--config[Print the run'\''s options as a file for --config of pretrain or finetune]' \
            '--openmetrics[Print the run'\''s figures as OpenMetrics text, for Prometheus]' \
            '--trace=[File for a timeline of some steps, for Perfetto and chrome\://tracing. Only such a timeline is replaced.]:FILE:_files' \
            '--trace-steps=[Steps of the timeline\: A-B, or one step (default\: the last 10). Steps whose spans were dropped are left out.]:A-B:_files' \
            '--help[what it takes]' ;;
    watch)
        _arguments \
            ':RUN:_files' \
            '--interval=[Seconds between updates, 0.05 to 86400]:X: ' \
            '--once[Print one view and exit]' \
            '--help[what it takes]' ;;
    check)
        _arguments \
            ':RUN|HFDIR:_files' \
            '--repair[Repair the run as far as possible. Wire parameters are made from their master; a superblock is written again. In mode mem, the run returns to its previous image. Damaged rows of measurements are dropped. A damaged log in run.db is cut off if the rest of the run matches.]' \
            '--scrub[Read the states, the best model and the snapshots, also while another process trains the run. siTrain writes nothing and takes no lock of the run.]' \
            '--scrub-bw=[With --scrub\: bytes/s that are read (default\: 0, no limit)]:SIZE: ' \
            '--base=[Folder of the model that an adapter belongs to (default\: the folder that its adapter_config.json names), or of the base that a run reads in place (default\: where it was)]:HFDIR:_files' \
            '--disk=[How devices are read (default\: as the run does)]:disk:(uring sync)' \
            '--quiet[Print only damage]' \
            '--help[what it takes]' ;;
    reshard)
        _arguments \
            ':RUN:_files' \
            '*--device=[Folder, new file or block device of one device]:PATH:_files' \
            '--devices=[Number of devices, made as folders in RUN, 1 to 1024]:N: ' \
            '*--fpga=[Card of one new device (default\: the card next to each drive). Requires --csd xrt. Give one card for every device, or none.]:ADDRESS:_files' \
            '--ranks=[Number of ranks of the new run, 1 to 1024. --devices is then the number per rank (default\: as before).]:N: ' \
            '--new-run=[Folder of the new run, with --ranks. The folders of its other ranks are made next to it.]:NEW:_files' \
            '--csd-mem=[Accelerator memory per device, 128K or more (default\: as before)]:SIZE: ' \
            '--force-device[Use block devices even if they carry a signature or another run]' \
            '--device-in-ram[Allow device files on a tmpfs]' \
            '--quiet[Print nothing]' \
            '--help[what it takes]' ;;
    snapshots)
        _arguments \
            ':RUN:_files' \
            '--check[Read each snapshot completely and compare it with its checksums]' \
            '--json[Print JSON]' \
            '--quiet[Print no progress]' \
            '--help[what it takes]' ;;
    restore)
        _arguments \
            ':RUN:_files' \
            '*--device=[New place of device I, counted from 0\: folder, new file or block device (default\: where it was)]:I=PATH:_files' \
            '--force-device[Use block devices even if they carry a signature]' \
            '--help[what it takes]' ;;
    devices)
        _arguments \
            '--dir=[Folder to try the disks in, with a 64K file that is removed]:DIR:_files' \
            '--help[what it takes]' ;;
    bench)
        _arguments \
            ':WHAT:_files' \
            '--dir=[Folder for test files, on the disk to measure. All are removed.]:DIR:_files' \
            '--only=[Sections to run, comma-separated. Sections that they depend on run too.]:only:_values -s , only products memory kernels disk steps' \
            '--save=[File for plan --machine. Only such a file is replaced. Without --only, no other section is measured.]:FILE:_files' \
            '--probe[Measure only the inputs of this model'\''s prediction, as plan does]' \
            '--rounds=[Number of rounds whose median is taken, 1 to 64]:N: ' \
            '--quick[Use a small model and few rounds\: under 20 seconds]' \
            '--json=[File for the results as JSON (-\: stdout, instead of tables). Only such a file is replaced.]:FILE:_files' \
            '--layer-us=[Microseconds that a layer'\''s forward waits, for network; backward waits twice as long. If above 0, --steps steps of the model are also driven, with these waits and without computing, on devices that answer at once. The waits apply to each of a rank'\''s --grad-accum micro-batches.]:N: ' \
            '--init=[Hugging Face folder of the model to start from, or of an adapter to go on with. bench, and plan of a fine-tuning, take a run, too.]:HFDIR:_files' \
            '--base=[Folder of the model that an adapter belongs to (default\: the folder that its adapter_config.json names), or of the base that a run reads in place (default\: where it was)]:HFDIR:_files' \
            '--model=[Size of a model to start from, with random parameters\: gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt2-2.7b, smollm2-135m, smollm2-360m, smollm2-1.7b, llama-3.2-1b, llama-3.2-3b, llama-3.1-8b, qwen2.5-0.5b, qwen2.5-1.5b, qwen2.5-3b, qwen2.5-7b, gemma-3-270m, gemma-3-1b, bert-base, bert-large, roberta-base, roberta-large. Size options override its values.]:model:(gpt2 gpt2-medium gpt2-large gpt2-xl gpt2-2.7b smollm2-135m smollm2-360m smollm2-1.7b llama-3.2-1b llama-3.2-3b llama-3.1-8b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b gemma-3-270m gemma-3-1b bert-base bert-large roberta-base roberta-large)' \
            '--n-layer=[Number of layers (default\: --model'\''s). Without --model, --n-layer, --n-head and --n-embd describe a GPT-2.]:N: ' \
            '--n-head=[Number of attention heads (default\: --model'\''s). Must divide --n-embd, unless --head-dim is given.]:N: ' \
            '--n-kv-head=[Number of key and value heads (default\: --model'\''s). Must divide --n-head. GPT-2, BERT and RoBERTa have as many as attention heads.]:N: ' \
            '--head-dim=[Size of one attention head (default\: --model'\''s; if --n-embd or --n-head is given, width / heads)]:N: ' \
            '--n-embd=[Width of embeddings and residual stream (default\: --model'\''s)]:N: ' \
            '--n-inner=[MLP width (default\: --model'\''s; in GPT-2, 4 times --n-embd)]:N: ' \
            '--vocab=[Vocabulary size (default\: the tokenizer'\''s; without a tokenizer, --model'\''s or 50257)]:N: ' \
            '--steps=[Number of training steps. With --resume\: the run'\''s new last step. By default, finetune trains for --epochs.]:N: ' \
            '--schedule-steps=[Length of the learning rate schedule, in steps (default\: --steps). With --resume\: the new length, which applies from the next step on.]:N: ' \
            '--batch=[Number of rows in a micro-batch]:N: ' \
            '--seq=[Number of tokens per row (default\: all positions of the model, but at most 1024 for Llama, Qwen and Gemma). In finetune, --seq means --max-seq.]:N: ' \
            '--grad-accum=[Number of micro-batches per step, summed over all processes]:N: ' \
            '--groups=[Number of gradient groups (0\: one per process). Results depend on the number of groups, not on how many processes share them.]:N: ' \
            '--lr=[Peak learning rate]:X: ' \
            '--min-lr=[Learning rate at the schedule'\''s end]:X: ' \
            '--warmup=[Length of the linear warm-up\: steps, or % of the schedule]:N|PART: ' \
            '--schedule=[Learning rate after the warm-up]:schedule:(cosine linear constant wsd)' \
            '--decay-steps=[Length of the decay at the end of --schedule wsd\: steps, or a part of the schedule (default\: 10%)]:N|PART: ' \
            '--optimizer=[Optimizer, as PyTorch defines it]:optimizer:(adamw adam sgd adagrad)' \
            '--beta1=[Decay rate of the first moment, 0 to 0.9999999. For sgd\: the momentum.]:X: ' \
            '--beta2=[Decay rate of the second moment, 0 to 0.9999999]:X: ' \
            '--eps=[Term added to the root of the second moment]:X: ' \
            '--weight-decay=[Weight decay. Decoupled in adamw; added to the gradient in the other optimizers.]:X: ' \
            '--decay=[Parameters that weight decay applies to]:decay:(matrices all)' \
            '--clip=[Largest gradient norm (0\: no clipping)]:X: ' \
            '--seed=[Seed of initial parameters, data order, masking and dropout]:N: ' \
            '--order=[Order of the training rows]:order:(shuffled sequential)' \
            '--mask-prob=[Fraction of tokens to mask (BERT), 0.1% to 99.9%]:PART: ' \
            '--mask-id=[Id of the mask token (default\: the tokenizer'\''s)]:N: ' \
            '--dropout=[Dropout rate of embeddings, attention and residual branches, 0 to 99% (default\: 0; in finetune, config.json'\''s)]:PART: ' \
            '--label-smoothing=[Fraction of each target'\''s weight that is spread over all words or classes. With --task dpo\: fraction of pairs whose answers are taken to be the wrong way round, below 0.5.]:PART: ' \
            '--neftune-alpha=[Size of the noise that training adds to the words'\'' embeddings (NEFTune; 0\: none). Usual values\: 5 to 15.]:X: ' \
            '--dtype=[Precision of parameters and of inputs of matrix products, in forward and backward. Sums are fp32.]:dtype:(fp32 bf16)' \
            '--mode=[Where optimizer states live and who updates them]:mode:(mem base su su+o su+o+c)' \
            '--csd=[Kind of computational storage device]:csd:(emu null xrt opencl)' \
            '--devices=[Number of devices, made as folders in RUN, 1 to 1024]:N: ' \
            '*--device=[Folder, file or block device of one device]:PATH:_files' \
            '*--act-device=[Where to store offloaded activations\: folder, new file or block device (default\: on the state devices). Temporary. With --resume, none removes the run'\''s.]:act-device:(none)' \
            '*--fpga=[Card of one device, as `siTrain devices` names it (default\: the card next to each drive). Requires --csd xrt. Give one card for every device, or none.]:ADDRESS:_files' \
            '--xclbin=[File with the cards'\'' kernels. Requires --csd xrt.]:FILE:_files' \
            '--force-device[Use block devices even if they carry a signature or another run]' \
            '--device-in-ram[Allow device files on a tmpfs. They add to --host-mem and are lost at power-off.]' \
            '--csd-mem=[Largest accelerator memory per device, 128K or more]:SIZE: ' \
            '--compress=[Fraction of the dense gradient'\''s bytes to send, as its largest values (default\: dense; in --mode su+o+c, 2%)]:PART: ' \
            '--error-feedback[Add gradient values that were not sent to the next step'\''s gradient. Requires --compress.]' \
            '--speculate[Update a block before the gradient norm is known (base, su+o, su+o+c). If clipping applies, the block is updated again. Results are identical; disk space grows 1.4 times.]' \
            '--spare-slots=[Space on the devices for updates that run ahead of commits]:spare-slots:(auto half few)' \
            '--link-bw=[Bandwidth of the modelled host link, bytes/s (default\: 0, unlimited)]:SIZE: ' \
            '--csd-read-bw=[Read speed of each modelled drive, bytes/s (default\: 0, unlimited; one value for all, or one per device, comma-separated). Reads and writes share the drive'\''s time.]:SIZE,..: ' \
            '--csd-write-bw=[Write speed of each modelled drive, bytes/s (default\: 0, unlimited; one value for all, or one per device, comma-separated)]:SIZE,..: ' \
            '--csd-latency=[Latency of a request to a modelled drive, in microseconds (default\: 0). Latencies of several requests overlap.]:X: ' \
            '--topology=[File that describes the modelled links as a tree (docs/internals/topology.md). Replaces --link-bw and --csd-... and is read at each start.]:topology:(none)' \
            '--host-mem=[RAM limit of the whole process, without the arenas of emulated devices (default\: 0, no limit)]:SIZE: ' \
            '--activations=[How backward gets the activations]:activations:(keep recompute offload auto ssdtrain)' \
            '--blas=[Engine of matrix products]:blas:(auto openblas onednn sitrain)' \
            '--threads=[Number of compute threads (default\: 0, all cores that the process may use). mpirun without --bind-to none may leave one or two cores. Except with --blas sitrain, the last bits of results depend on the number.]:N: ' \
            '--disk=[How devices are read and written. null stores nothing.]:disk:(uring sync null)' \
            '--io-timeout=[Seconds without a sign of life from a device, or from the files of --base-in-place, until the run ends (0\: never)]:X: ' \
            '--rank-timeout=[Seconds without an answer from another process (mpirun) until training ends (0\: never). Must exceed the time of the slowest process for two layers.]:X: ' \
            '--endurance=[Bytes that can be written to a drive in its life (TBW; default\: unknown). Training warns if the drive would last less than a year.]:SIZE: ' \
            '--durability=[When written states are flushed]:durability:(step none)' \
            '--commit-every=[Number of steps between commits in --mode mem]:N: ' \
            '--eval-every=[Number of steps between evaluations (default\: 0, only at the end; in finetune, one epoch)]:N: ' \
            '--log-every=[Number of steps between printed lines. A terminal shows every step and keeps these lines.]:N: ' \
            '--max-skipped=[Number of consecutive skipped steps after which training stops (0\: never). A step is skipped if its loss or a gradient is not finite.]:N: ' \
            '--keep-best[Keep the model of the best evaluation in RUN/best, a Hugging Face folder]' \
            '--export-every=[Number of steps between exports of the model to RUN/checkpoint-STEP, a Hugging Face folder, or of its adapters (default\: 0, none). The last step has one, too.]:N: ' \
            '--export-limit=[Number of these folders to keep (default\: 0, all). The oldest is removed when a newer one is complete. Requires --export-every.]:N: ' \
            '--snapshot-every=[Number of steps between snapshots of the whole run (default\: 0, none). One is also taken before the first step and at the end. Training goes on meanwhile.]:N: ' \
            '*--snapshot-dir=[Existing folder for snapshots (default\: RUN/snapshots). Several folders take turns.]:DIR:_files' \
            '--snapshot-on=[Where snapshots are kept]:snapshot-on:(dir devices hosts)' \
            '--parity=[Number of drives that may be lost with --snapshot-on devices. 2 needs at least 3 devices.]:N: ' \
            '--snapshots=[Number of snapshots to keep. The oldest is removed after the newest has been read back and compared.]:N: ' \
            '--snapshot-bw=[Bytes/s that are read for a snapshot during training\: copying, parity and reading back (default\: 0, while the run'\''s drives have nothing else to do)]:SIZE: ' \
            '--scrub-bw=[Bytes/s that are read in the background\: states, best model and snapshots, to find damage that nobody has met yet (default\: 0, none)]:SIZE: ' \
            '--early-stopping=[Number of evaluations without a better value after which training ends (default\: 0, never). --keep-best compares the same value.]:N: ' \
            '--time-limit=[Time after which this process ends, such as 2h, 90m or 1\:30\:00 (default\: none). Training stops and commits before a step that would not end in time, and --resume goes on. Tokenising stops, too, and the same command goes on.]:TIME: ' \
            '--tensorboard=[Folder for TensorBoard event files of steps and evaluations. With auto\: RUN/tensorboard.]:tensorboard:(none auto)' \
            '--quiet[Print no line per step]' \
            '--help[what it takes]' ;;
    esac
}
if [ "$funcstack[1]" = _siTrain ]; then
    _siTrain "$@"
else
    compdef _siTrain siTrain
fi

#compdef siTrain
# zsh completion of siTrain: as _siTrain into a folder of $fpath
_siTrain() {
    if (( CURRENT == 2 )); then
        local -a commands=(
            'pretrain:train a model'
            'finetune:train a classifier or regressor\: a GLUE task, or your own rows'
            'eval:the loss of a model on a file, or a classifier'\''s metrics'
            'generate:continue a text'
            'prepare:write a token file, or train a tokenizer'
            'import:make a run from a Hugging Face folder'
            'export:write a folder that Hugging Face'\''s transformers loads'
            'plan:the memory, the traffic, the disk space and the time of a run, before it is made'
            'report:what happened in a run\: times, traffic, overlap, bandwidth; runs side by side'
            'watch:look on while a run is trained'
            'check:read everything of a run, or of an export, and say whether it is whole'
            'reshard:move a run onto other drives, or another number of them, or of ranks'
            'devices:what this machine has\: processor, memory, engines, disks, CSDs, cards, NVMe drives'
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
            '--config=[options from a file, a line each\: name = value; those of the command line come first]:FILE:_files' \
            '--run=[the new run'\''s folder]:RUN:_files' \
            '--resume=[go on with this run from its last commit]:RUN:_files' \
            '--data=[a token file (llm.c'\''s or nanoGPT'\''s), read in place, or a text, tokenised into RUN]:FILE:_files' \
            '--eval-data=[the same, to evaluate on]:FILE:_files' \
            '--data-format=[what such a file is; auto\: as it looks, and ids without llm.c'\''s header only where its name ends in .bin\: uint16, or uint32 where the vocabulary has more than 65,536; text\: also what looks like JSON; u16, u32\: ids without a header]:data-format:(auto text u16 u32)' \
            '--tokenizer=[a folder with tokenizer.json, vocab.json and merges.txt, or BERT'\''s vocab.txt; else the one in --init'\''s folder, whose words it must have]:DIR:_files' \
            '--init=[begin with the model of a Hugging Face folder]:HFDIR:_files' \
            '--model=[begin with random parameters of this size, or of its family with the sizes that follow\: gpt2 (124M), gpt2-medium, gpt2-large, gpt2-xl, gpt2-2.7b, smollm2-135m, smollm2-360m, smollm2-1.7b, llama-3.2-1b, llama-3.2-3b, llama-3.1-8b, qwen2.5-0.5b, qwen2.5-1.5b, qwen2.5-3b, qwen2.5-7b, gemma-3-270m, gemma-3-1b, bert-base, bert-large, roberta-base, roberta-large]:model:(gpt2 gpt2-medium gpt2-large gpt2-xl gpt2-2.7b smollm2-135m smollm2-360m smollm2-1.7b llama-3.2-1b llama-3.2-3b llama-3.1-8b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b gemma-3-270m gemma-3-1b bert-base bert-large roberta-base roberta-large)' \
            '--n-layer=[layers of a model of your own\: a GPT-2 where there is no --model]:N: ' \
            '--n-head=[attention heads; they divide the width]:N: ' \
            '--n-kv-head=[heads of keys and values, which divide these; of --model'\''s family, if it has that]:N: ' \
            '--head-dim=[columns of a head, if not width / heads; the same]:N: ' \
            '--n-embd=[width]:N: ' \
            '--n-inner=[width of the MLP; the same]:N: ' \
            '--vocab=[words of the vocabulary; else the tokenizer'\''s, or 50257]:N: ' \
            '--steps=[steps to train; with --resume the run'\''s new end]:N: ' \
            '--schedule-steps=[horizon of the learning rate schedule, if not --steps; with --resume the new one, by which the rate is computed from there on]:N: ' \
            '--batch=[rows of a micro-batch]:N: ' \
            '--seq=[tokens of a row, if not all positions of the model (1024 of Llama'\''s and its kin'\''s); finetune\: the same as --max-seq]:N: ' \
            '--grad-accum=[micro-batches of a step, of all processes that share it]:N: ' \
            '--groups=[number of gradient groups of a step'\''s micro-batches; bits depend on it, not on how many processes share the groups; 0\: one for each process, so that other numbers of processes give other last bits]:N: ' \
            '--lr=[peak learning rate]:X: ' \
            '--min-lr=[learning rate at the end of the schedule]:X: ' \
            '--warmup=[linear warm-up\: steps, or % of the horizon]:N|PART: ' \
            '--schedule=[learning rate after the warm-up]:schedule:(cosine linear constant)' \
            '--optimizer=[as PyTorch has them]:optimizer:(adamw adam sgd adagrad)' \
            '--beta1=[first moment'\''s decay; sgd'\''s momentum]:X: ' \
            '--beta2=[second moment'\''s decay]:X: ' \
            '--eps=[added to the root of the second moment]:X: ' \
            '--weight-decay=[decoupled in adamw, added to the gradient elsewhere]:X: ' \
            '--decay=[which tensors decay]:decay:(matrices all)' \
            '--clip=[largest norm of the gradient; 0\: no clipping]:X: ' \
            '--seed=[of initial parameters and the order of the data]:N: ' \
            '--order=[of the rows of the data]:order:(shuffled sequential)' \
            '--mask-prob=[of a masked language model (BERT)\: how many of a row'\''s tokens it is asked for]:PART: ' \
            '--mask-id=[the id that masks them, where no tokenizer says it]:N: ' \
            '--dropout=[part of the embeddings, attention and branches that a step drops; finetune\: if not given, as config.json says]:PART: ' \
            '--dtype=[what forward and backward read\: parameters and inputs of products; sums are fp32]:dtype:(fp32 bf16)' \
            '--mode=[where states live and who updates\: all in RAM; host with states on drives; devices, naively; devices, buffers handed over; the same with compressed gradients]:mode:(mem base su su+o su+o+c)' \
            '--csd=[kind of the devices\: emulated; null, which answers at once, stores nothing and trains nothing; xrt, an FPGA beside each drive; opencl, an accelerator that OpenCL sees]:csd:(emu null xrt opencl)' \
            '--devices=[how many devices, as folders in RUN]:N: ' \
            '*--device=[a folder, file or block device for one device]:PATH:_files' \
            '*--act-device=[a folder, new file or block device for offloaded activations alone, which else lie behind the states of all devices; what is there does not outlive the training]:act-device:(none)' \
            '*--fpga=[with --csd xrt\: the card of one device, as `siTrain devices` calls it; given once a device, or not at all\: the card beside each drive is found]:ADDRESS:_files' \
            '--xclbin=[with --csd xrt\: the cards'\'' kernels]:FILE:_files' \
            '--force-device[take block devices that carry a signature or another run]' \
            '--device-in-ram[make device files on a tmpfs, too\: beside --host-mem, and gone with the power]' \
            '--csd-mem=[accelerator memory of a device, at most]:SIZE: ' \
            '--compress=[send the largest gradients only\: this part of the dense gradient'\''s bytes]:PART: ' \
            '--error-feedback[add what was not sent to the next step'\''s gradient]' \
            '--speculate[base, su+o\: update a block before the gradient'\''s norm is known, and again where it asks for clipping; the same bits, 1.4 times the space on disk]' \
            '--spare-slots=[places on the devices beside those of the states, for updates that run ahead of commits\: half as many as states, or few, an eighth, which is slower by some commits a step; auto\: half (with --speculate more) where that leaves a tenth of what is free, else few]:spare-slots:(auto half few)' \
            '--link-bw=[bytes a second of the modelled host link; 0\: unlimited]:SIZE: ' \
            '--csd-read-bw=[bytes a second that the modelled drive of a device reads if it does nothing else, reads and writes sharing its time; 0\: unlimited; several, with commas between\: of each device]:SIZE,..: ' \
            '--csd-write-bw=[that it writes if it does nothing else, in the same way]:SIZE,..: ' \
            '--csd-latency=[microseconds that a request to the modelled drive of a device takes beside its bytes; others are served meanwhile]:X: ' \
            '--topology=[a file that describes the modelled links as a tree (docs/topology.md), instead of --link-bw and --csd-...; it is read at each start]:topology:(none)' \
            '--host-mem=[RAM for the whole process, arenas of emulated devices apart; 0\: no promise]:SIZE: ' \
            '--activations=[what backward needs\: kept in RAM as far as there is room, and else recomputed; all recomputed; kept as far as there is room, and else written to the devices and read back; all three, part by part, as makes the measured steps shortest; or kept and written as SSDTrain'\''s rule says]:activations:(keep recompute offload auto ssdtrain)' \
            '--blas=[engine of the products; auto\: oneDNN (if built in) where the CPU has AVX-512, and for bf16 its bf16 products; else OpenBLAS]:blas:(auto openblas onednn)' \
            '--threads=[threads of the kernels; 0\: all cores that the process may use (mpirun without --bind-to none may leave it one or two); last bits depend on them]:N: ' \
            '--disk=[how devices are read and written; null stores nothing]:disk:(uring sync null)' \
            '--io-timeout=[seconds after which a device that gives no sign of life ends the run; 0\: never]:X: ' \
            '--rank-timeout=[several processes (mpirun)\: seconds after which one that does not answer the others ends the run, while they train; more than the slowest takes for two layers; 0\: never]:X: ' \
            '--endurance=[bytes that a drive may be written in its life (TBW)\: training warns where it would last less than a year]:SIZE: ' \
            '--durability=[step\: every step survives a power cut; none\: no flushes]:durability:(step none)' \
            '--commit-every=[steps between commits in mode mem]:N: ' \
            '--eval-every=[steps between evaluations; 0\: only at the end]:N: ' \
            '--log-every=[steps between lines; on a terminal, if above 1, between those that stay]:N: ' \
            '--max-skipped=[stop after so many steps in a row that were skipped since the loss or a gradient was not finite; 0\: never]:N: ' \
            '--keep-best[keep the model after the best evaluation in RUN/best, a Hugging Face folder]' \
            '--tensorboard=[write what each step and evaluation gave into this folder as TensorBoard reads it; auto\: RUN/tensorboard]:tensorboard:(none auto)' \
            '--quiet[print no line per step]' \
            '--help[what it takes]' ;;
    finetune)
        _arguments \
            '--config=[options from a file, a line each\: name = value; those of the command line come first]:FILE:_files' \
            '--run=[the new run'\''s folder]:RUN:_files' \
            '--resume=[go on with this run from its last commit]:RUN:_files' \
            '--init=[begin with this model; a head for as many classes is kept]:HFDIR|RUN:_files' \
            '--tokenizer=[else the one in --init'\''s folder]:DIR:_files' \
            '--data=[--task'\''s folder, with train.tsv and dev.tsv as GLUE has them]:DIR:_files' \
            '--task=[a GLUE task]:task:(cola sst2 mrpc stsb qqp mnli qnli rte wnli)' \
            '--train-file=[rows of one'\''s own, .csv, .tsv, .json or .jsonl (an object a line, or one list)\: sentence, or sentence1 and sentence2, and label; or as --text-column and the others say]:FILE:_files' \
            '--eval-file=[the same, to evaluate on]:FILE:_files' \
            '--test-file=[the same, to predict; labels are not looked at]:FILE:_files' \
            '--regression[labels are numbers to come near to; else that is so where one is not whole]' \
            '--epochs=[how often each row is trained on; --steps says otherwise]:N: ' \
            '--max-seq=[tokens of a row, the rest is cut off; if not given 128, or what the model has]:N: ' \
            '--predict[write predictions of the test rows at the end]' \
            '--max-train-samples=[train on the first N rows only; 0\: all]:N: ' \
            '--max-eval-samples=[evaluate on the first N only]:N: ' \
            '--max-predict-samples=[predict the first N only]:N: ' \
            '--text-column=[the column (of an object\: the name) of the text; if not given a pair as GLUE'\''s tasks have them (sentence1 and sentence2, premise and hypothesis, question and sentence, question1 and question2), sentence, text, or the first two that are neither label nor id; of a run\: as it was trained]:NAME:_files' \
            '--pair-column=[of the second text, where rows are pairs]:NAME:_files' \
            '--label-column=[of the label, if it is not called label]:NAME:_files' \
            '--steps=[steps to train; with --resume the run'\''s new end]:N: ' \
            '--schedule-steps=[horizon of the learning rate schedule, if not --steps; with --resume the new one, by which the rate is computed from there on]:N: ' \
            '--batch=[rows of a micro-batch]:N: ' \
            '--seq=[tokens of a row, if not all positions of the model (1024 of Llama'\''s and its kin'\''s); finetune\: the same as --max-seq]:N: ' \
            '--grad-accum=[micro-batches of a step, of all processes that share it]:N: ' \
            '--groups=[number of gradient groups of a step'\''s micro-batches; bits depend on it, not on how many processes share the groups; 0\: one for each process, so that other numbers of processes give other last bits]:N: ' \
            '--lr=[peak learning rate]:X: ' \
            '--min-lr=[learning rate at the end of the schedule]:X: ' \
            '--warmup=[linear warm-up\: steps, or % of the horizon]:N|PART: ' \
            '--schedule=[learning rate after the warm-up]:schedule:(cosine linear constant)' \
            '--optimizer=[as PyTorch has them]:optimizer:(adamw adam sgd adagrad)' \
            '--beta1=[first moment'\''s decay; sgd'\''s momentum]:X: ' \
            '--beta2=[second moment'\''s decay]:X: ' \
            '--eps=[added to the root of the second moment]:X: ' \
            '--weight-decay=[decoupled in adamw, added to the gradient elsewhere]:X: ' \
            '--decay=[which tensors decay]:decay:(matrices all)' \
            '--clip=[largest norm of the gradient; 0\: no clipping]:X: ' \
            '--seed=[of initial parameters and the order of the data]:N: ' \
            '--order=[of the rows of the data]:order:(shuffled sequential)' \
            '--mask-prob=[of a masked language model (BERT)\: how many of a row'\''s tokens it is asked for]:PART: ' \
            '--mask-id=[the id that masks them, where no tokenizer says it]:N: ' \
            '--dropout=[part of the embeddings, attention and branches that a step drops; finetune\: if not given, as config.json says]:PART: ' \
            '--dtype=[what forward and backward read\: parameters and inputs of products; sums are fp32]:dtype:(fp32 bf16)' \
            '--mode=[where states live and who updates\: all in RAM; host with states on drives; devices, naively; devices, buffers handed over; the same with compressed gradients]:mode:(mem base su su+o su+o+c)' \
            '--csd=[kind of the devices\: emulated; null, which answers at once, stores nothing and trains nothing; xrt, an FPGA beside each drive; opencl, an accelerator that OpenCL sees]:csd:(emu null xrt opencl)' \
            '--devices=[how many devices, as folders in RUN]:N: ' \
            '*--device=[a folder, file or block device for one device]:PATH:_files' \
            '*--act-device=[a folder, new file or block device for offloaded activations alone, which else lie behind the states of all devices; what is there does not outlive the training]:act-device:(none)' \
            '*--fpga=[with --csd xrt\: the card of one device, as `siTrain devices` calls it; given once a device, or not at all\: the card beside each drive is found]:ADDRESS:_files' \
            '--xclbin=[with --csd xrt\: the cards'\'' kernels]:FILE:_files' \
            '--force-device[take block devices that carry a signature or another run]' \
            '--device-in-ram[make device files on a tmpfs, too\: beside --host-mem, and gone with the power]' \
            '--csd-mem=[accelerator memory of a device, at most]:SIZE: ' \
            '--compress=[send the largest gradients only\: this part of the dense gradient'\''s bytes]:PART: ' \
            '--error-feedback[add what was not sent to the next step'\''s gradient]' \
            '--speculate[base, su+o\: update a block before the gradient'\''s norm is known, and again where it asks for clipping; the same bits, 1.4 times the space on disk]' \
            '--spare-slots=[places on the devices beside those of the states, for updates that run ahead of commits\: half as many as states, or few, an eighth, which is slower by some commits a step; auto\: half (with --speculate more) where that leaves a tenth of what is free, else few]:spare-slots:(auto half few)' \
            '--link-bw=[bytes a second of the modelled host link; 0\: unlimited]:SIZE: ' \
            '--csd-read-bw=[bytes a second that the modelled drive of a device reads if it does nothing else, reads and writes sharing its time; 0\: unlimited; several, with commas between\: of each device]:SIZE,..: ' \
            '--csd-write-bw=[that it writes if it does nothing else, in the same way]:SIZE,..: ' \
            '--csd-latency=[microseconds that a request to the modelled drive of a device takes beside its bytes; others are served meanwhile]:X: ' \
            '--topology=[a file that describes the modelled links as a tree (docs/topology.md), instead of --link-bw and --csd-...; it is read at each start]:topology:(none)' \
            '--host-mem=[RAM for the whole process, arenas of emulated devices apart; 0\: no promise]:SIZE: ' \
            '--activations=[what backward needs\: kept in RAM as far as there is room, and else recomputed; all recomputed; kept as far as there is room, and else written to the devices and read back; all three, part by part, as makes the measured steps shortest; or kept and written as SSDTrain'\''s rule says]:activations:(keep recompute offload auto ssdtrain)' \
            '--blas=[engine of the products; auto\: oneDNN (if built in) where the CPU has AVX-512, and for bf16 its bf16 products; else OpenBLAS]:blas:(auto openblas onednn)' \
            '--threads=[threads of the kernels; 0\: all cores that the process may use (mpirun without --bind-to none may leave it one or two); last bits depend on them]:N: ' \
            '--disk=[how devices are read and written; null stores nothing]:disk:(uring sync null)' \
            '--io-timeout=[seconds after which a device that gives no sign of life ends the run; 0\: never]:X: ' \
            '--rank-timeout=[several processes (mpirun)\: seconds after which one that does not answer the others ends the run, while they train; more than the slowest takes for two layers; 0\: never]:X: ' \
            '--endurance=[bytes that a drive may be written in its life (TBW)\: training warns where it would last less than a year]:SIZE: ' \
            '--durability=[step\: every step survives a power cut; none\: no flushes]:durability:(step none)' \
            '--commit-every=[steps between commits in mode mem]:N: ' \
            '--eval-every=[steps between evaluations; 0\: only at the end]:N: ' \
            '--log-every=[steps between lines; on a terminal, if above 1, between those that stay]:N: ' \
            '--max-skipped=[stop after so many steps in a row that were skipped since the loss or a gradient was not finite; 0\: never]:N: ' \
            '--keep-best[keep the model after the best evaluation in RUN/best, a Hugging Face folder]' \
            '--tensorboard=[write what each step and evaluation gave into this folder as TensorBoard reads it; auto\: RUN/tensorboard]:tensorboard:(none auto)' \
            '--quiet[print no line per step]' \
            '--help[what it takes]' ;;
    eval)
        _arguments \
            ':RUN|HFDIR:_files' \
            '--data=[a token file or a text; with --task its folder]:FILE|DIR:_files' \
            '--data-format=[what such a file is; auto\: as it looks, and ids without llm.c'\''s header only where its name ends in .bin\: uint16, or uint32 where the vocabulary has more than 65,536; text\: also what looks like JSON; u16, u32\: ids without a header]:data-format:(auto text u16 u32)' \
            '--tokenizer=[for texts; else the model'\''s own]:DIR:_files' \
            '--task=[of a classifier\: the task]:task:(cola sst2 mrpc stsb qqp mnli qnli rte wnli)' \
            '--eval-file=[of a classifier\: rows of one'\''s own, as finetune takes them]:FILE:_files' \
            '--test-file=[rows of one'\''s own to predict]:FILE:_files' \
            '--predict=[write predictions of the test rows; only what eval --predict wrote is replaced]:FILE:_files' \
            '--max-seq=[tokens of a classifier'\''s row, the rest is cut off; if not given 128, or what the model has]:N: ' \
            '--mask-prob=[of a masked language model\: how many of a row'\''s tokens it is asked for; if not given as the run was trained, or 15%]:PART: ' \
            '--mask-id=[the id that masks them, where no tokenizer says it]:N: ' \
            '--max-eval-samples=[only the first rows; 0\: all]:N: ' \
            '--max-predict-samples=[the same of the rows to predict]:N: ' \
            '--text-column=[the column (of an object\: the name) of the text; if not given a pair as GLUE'\''s tasks have them (sentence1 and sentence2, premise and hypothesis, question and sentence, question1 and question2), sentence, text, or the first two that are neither label nor id; of a run\: as it was trained]:NAME:_files' \
            '--pair-column=[of the second text, where rows are pairs]:NAME:_files' \
            '--label-column=[of the label, if it is not called label]:NAME:_files' \
            '--best[the best model that --keep-best kept, in RUN/best; not given\: that one where there is one]' \
            '--last[the model after the last step]' \
            '--seq=[tokens of a row, if not all positions of the model (1024 of Llama'\''s and its kin'\''s)]:N: ' \
            '--batch=[rows that go through together]:N: ' \
            '--dtype=[what forward and backward read\: parameters and inputs of products; sums are fp32]:dtype:(fp32 bf16)' \
            '--host-mem=[RAM for the whole process, arenas of emulated devices apart; 0\: no promise]:SIZE: ' \
            '--blas=[engine of the products; auto\: oneDNN (if built in) where the CPU has AVX-512, and for bf16 its bf16 products; else OpenBLAS]:blas:(auto openblas onednn)' \
            '--threads=[threads of the kernels; 0\: all cores that the process may use (mpirun without --bind-to none may leave it one or two); last bits depend on them]:N: ' \
            '--disk=[how devices are read and written; null stores nothing]:disk:(uring sync null)' \
            '--help[what it takes]' ;;
    generate)
        _arguments \
            ':RUN|HFDIR:_files' \
            '*--prompt=[the beginning; left out\: <|endoftext|>, or what the tokenizer begins texts with]:TEXT:_files' \
            '--prompt-file=[a prompt a line]:FILE:_files' \
            '--chat[read a line, continue the conversation, and so on; Ctrl-C stops an answer, an empty line ends it]' \
            '--tokens=[how many to write, at most; not given\: also no more than there are positions]:N: ' \
            '*--stop=[end before this text]:TEXT:_files' \
            '--temperature=[0\: always the likeliest token. Not given, this and the next three are what the model'\''s generation_config.json says, if anything]:X: ' \
            '--top-k=[choose among the k likeliest only; 0\: all]:N: ' \
            '--top-p=[choose among the likeliest that have this probability together; 0 or 1\: all]:PART: ' \
            '--repetition-penalty=[Factor by which tokens of the text so far become less likely; 1\: none]:X: ' \
            '--seed=[of the choices]:N: ' \
            '--tokenizer=[else the model'\''s own]:DIR:_files' \
            '--best[the best model that --keep-best kept, in RUN/best; not given\: that one where there is one]' \
            '--last[the model after the last step]' \
            '--seq=[tokens of a row, if not all positions of the model (1024 of Llama'\''s and its kin'\''s)]:N: ' \
            '--batch=[rows that go through together]:N: ' \
            '--dtype=[what forward and backward read\: parameters and inputs of products; sums are fp32]:dtype:(fp32 bf16)' \
            '--host-mem=[RAM for the whole process, arenas of emulated devices apart; 0\: no promise]:SIZE: ' \
            '--blas=[engine of the products; auto\: oneDNN (if built in) where the CPU has AVX-512, and for bf16 its bf16 products; else OpenBLAS]:blas:(auto openblas onednn)' \
            '--threads=[threads of the kernels; 0\: all cores that the process may use (mpirun without --bind-to none may leave it one or two); last bits depend on them]:N: ' \
            '--disk=[how devices are read and written; null stores nothing]:disk:(uring sync null)' \
            '--help[what it takes]' ;;
    prepare)
        _arguments \
            '*:FILE:_files' \
            '--out=[the token file, or with --train-tokenizer the folder, to write; what is there is replaced only if siTrain prepare wrote it]:PATH:_files' \
            '--tokenizer=[a folder with tokenizer.json, vocab.json and merges.txt, or BERT'\''s vocab.txt]:DIR:_files' \
            '--train-tokenizer[train a byte-level BPE on the texts instead]' \
            '--data-format=[what such a file is; auto\: as it looks, and ids without llm.c'\''s header only where its name ends in .bin\: uint16, or uint32 where the vocabulary has more than 65,536; text\: also what looks like JSON; u16, u32\: ids without a header]:data-format:(auto text u16 u32)' \
            '--vocab=[ids of the tokenizer to train]:N: ' \
            '--help[what it takes]' ;;
    import)
        _arguments \
            ':HFDIR:_files' \
            ':RUN:_files' \
            '--steps=[steps to train; with --resume the run'\''s new end]:N: ' \
            '--schedule-steps=[horizon of the learning rate schedule, if not --steps; with --resume the new one, by which the rate is computed from there on]:N: ' \
            '--batch=[rows of a micro-batch]:N: ' \
            '--seq=[tokens of a row, if not all positions of the model (1024 of Llama'\''s and its kin'\''s); finetune\: the same as --max-seq]:N: ' \
            '--grad-accum=[micro-batches of a step, of all processes that share it]:N: ' \
            '--groups=[number of gradient groups of a step'\''s micro-batches; bits depend on it, not on how many processes share the groups; 0\: one for each process, so that other numbers of processes give other last bits]:N: ' \
            '--lr=[peak learning rate]:X: ' \
            '--min-lr=[learning rate at the end of the schedule]:X: ' \
            '--warmup=[linear warm-up\: steps, or % of the horizon]:N|PART: ' \
            '--schedule=[learning rate after the warm-up]:schedule:(cosine linear constant)' \
            '--optimizer=[as PyTorch has them]:optimizer:(adamw adam sgd adagrad)' \
            '--beta1=[first moment'\''s decay; sgd'\''s momentum]:X: ' \
            '--beta2=[second moment'\''s decay]:X: ' \
            '--eps=[added to the root of the second moment]:X: ' \
            '--weight-decay=[decoupled in adamw, added to the gradient elsewhere]:X: ' \
            '--decay=[which tensors decay]:decay:(matrices all)' \
            '--clip=[largest norm of the gradient; 0\: no clipping]:X: ' \
            '--seed=[of initial parameters and the order of the data]:N: ' \
            '--order=[of the rows of the data]:order:(shuffled sequential)' \
            '--mask-prob=[of a masked language model (BERT)\: how many of a row'\''s tokens it is asked for]:PART: ' \
            '--mask-id=[the id that masks them, where no tokenizer says it]:N: ' \
            '--dropout=[part of the embeddings, attention and branches that a step drops; finetune\: if not given, as config.json says]:PART: ' \
            '--dtype=[what forward and backward read\: parameters and inputs of products; sums are fp32]:dtype:(fp32 bf16)' \
            '--mode=[where states live and who updates\: all in RAM; host with states on drives; devices, naively; devices, buffers handed over; the same with compressed gradients]:mode:(mem base su su+o su+o+c)' \
            '--csd=[kind of the devices\: emulated; null, which answers at once, stores nothing and trains nothing; xrt, an FPGA beside each drive; opencl, an accelerator that OpenCL sees]:csd:(emu null xrt opencl)' \
            '--devices=[how many devices, as folders in RUN]:N: ' \
            '*--device=[a folder, file or block device for one device]:PATH:_files' \
            '*--act-device=[a folder, new file or block device for offloaded activations alone, which else lie behind the states of all devices; what is there does not outlive the training]:act-device:(none)' \
            '*--fpga=[with --csd xrt\: the card of one device, as `siTrain devices` calls it; given once a device, or not at all\: the card beside each drive is found]:ADDRESS:_files' \
            '--xclbin=[with --csd xrt\: the cards'\'' kernels]:FILE:_files' \
            '--force-device[take block devices that carry a signature or another run]' \
            '--device-in-ram[make device files on a tmpfs, too\: beside --host-mem, and gone with the power]' \
            '--csd-mem=[accelerator memory of a device, at most]:SIZE: ' \
            '--compress=[send the largest gradients only\: this part of the dense gradient'\''s bytes]:PART: ' \
            '--error-feedback[add what was not sent to the next step'\''s gradient]' \
            '--speculate[base, su+o\: update a block before the gradient'\''s norm is known, and again where it asks for clipping; the same bits, 1.4 times the space on disk]' \
            '--spare-slots=[places on the devices beside those of the states, for updates that run ahead of commits\: half as many as states, or few, an eighth, which is slower by some commits a step; auto\: half (with --speculate more) where that leaves a tenth of what is free, else few]:spare-slots:(auto half few)' \
            '--link-bw=[bytes a second of the modelled host link; 0\: unlimited]:SIZE: ' \
            '--csd-read-bw=[bytes a second that the modelled drive of a device reads if it does nothing else, reads and writes sharing its time; 0\: unlimited; several, with commas between\: of each device]:SIZE,..: ' \
            '--csd-write-bw=[that it writes if it does nothing else, in the same way]:SIZE,..: ' \
            '--csd-latency=[microseconds that a request to the modelled drive of a device takes beside its bytes; others are served meanwhile]:X: ' \
            '--topology=[a file that describes the modelled links as a tree (docs/topology.md), instead of --link-bw and --csd-...; it is read at each start]:topology:(none)' \
            '--host-mem=[RAM for the whole process, arenas of emulated devices apart; 0\: no promise]:SIZE: ' \
            '--activations=[what backward needs\: kept in RAM as far as there is room, and else recomputed; all recomputed; kept as far as there is room, and else written to the devices and read back; all three, part by part, as makes the measured steps shortest; or kept and written as SSDTrain'\''s rule says]:activations:(keep recompute offload auto ssdtrain)' \
            '--blas=[engine of the products; auto\: oneDNN (if built in) where the CPU has AVX-512, and for bf16 its bf16 products; else OpenBLAS]:blas:(auto openblas onednn)' \
            '--threads=[threads of the kernels; 0\: all cores that the process may use (mpirun without --bind-to none may leave it one or two); last bits depend on them]:N: ' \
            '--disk=[how devices are read and written; null stores nothing]:disk:(uring sync null)' \
            '--io-timeout=[seconds after which a device that gives no sign of life ends the run; 0\: never]:X: ' \
            '--rank-timeout=[several processes (mpirun)\: seconds after which one that does not answer the others ends the run, while they train; more than the slowest takes for two layers; 0\: never]:X: ' \
            '--endurance=[bytes that a drive may be written in its life (TBW)\: training warns where it would last less than a year]:SIZE: ' \
            '--durability=[step\: every step survives a power cut; none\: no flushes]:durability:(step none)' \
            '--commit-every=[steps between commits in mode mem]:N: ' \
            '--eval-every=[steps between evaluations; 0\: only at the end]:N: ' \
            '--log-every=[steps between lines; on a terminal, if above 1, between those that stay]:N: ' \
            '--max-skipped=[stop after so many steps in a row that were skipped since the loss or a gradient was not finite; 0\: never]:N: ' \
            '--keep-best[keep the model after the best evaluation in RUN/best, a Hugging Face folder]' \
            '--tensorboard=[write what each step and evaluation gave into this folder as TensorBoard reads it; auto\: RUN/tensorboard]:tensorboard:(none auto)' \
            '--quiet[print no line per step]' \
            '--help[what it takes]' ;;
    export)
        _arguments \
            ':RUN:_files' \
            ':HFDIR:_files' \
            '--dtype=[of the tensors]:dtype:(fp32 bf16 fp16)' \
            '--max-shard-size=[bytes of tensors in a file, at most; what is larger becomes model-00001-of-0000N.safetensors with an index, as transformers has them; 0\: one file]:SIZE: ' \
            '--best[the best model that --keep-best kept, in RUN/best; not given\: that one where there is one]' \
            '--last[the model after the last step]' \
            '--help[what it takes]' ;;
    plan)
        _arguments \
            '--config=[options from a file, a line each\: name = value; those of the command line come first]:FILE:_files' \
            '--run=[where it will be made\: on that disk the probe works]:RUN:_files' \
            '--probe=[on\: a small model'\''s steps are measured for some seconds, to say how long one takes; off\: no time is said, as where another machine is planned for]:probe:(on off)' \
            '--machine=[say how long a step takes on the machine of this file, which siTrain bench --save measured or a person described, with --topology or --link-bw and --csd-...; nothing is measured (docs/scaling-model.md)]:FILE:_files' \
            '--compare[with --machine\: in every mode that has devices]' \
            '--ranks=[as many hosts like this one, each with such devices, train it together (mpirun -n); memory, traffic and storage are those of the first]:N: ' \
            '--network-bw=[bytes a second that come to each of --ranks and as many that leave it, as siTrain bench network measures; 0\: it takes no time]:SIZE: ' \
            '--network-latency=[microseconds until what a rank sends begins to arrive]:US: ' \
            '--traffic[say in bytes what crosses each link and what is written in a step, class by class]' \
            '--json=[write the prediction as JSON (only such a file is replaced); -\: to stdout, instead of the plan]:FILE:_files' \
            '--data=[accepted, so that pretrain'\''s line can be planned as it is\: nothing depends on it, but where it is there, what pretrain refuses is refused; with --task its folder]:FILE|DIR:_files' \
            '--eval-data=[the same]:FILE:_files' \
            '--data-format=[what such a file is; auto\: as it looks, and ids without llm.c'\''s header only where its name ends in .bin\: uint16, or uint32 where the vocabulary has more than 65,536; text\: also what looks like JSON; u16, u32\: ids without a header]:data-format:(auto text u16 u32)' \
            '--tokenizer=[says how large the vocabulary is]:DIR:_files' \
            '--task=[a GLUE task]:task:(cola sst2 mrpc stsb qqp mnli qnli rte wnli)' \
            '--train-file=[rows of one'\''s own, .csv, .tsv, .json or .jsonl (an object a line, or one list)\: sentence, or sentence1 and sentence2, and label; or as --text-column and the others say]:FILE:_files' \
            '--eval-file=[the same, to evaluate on]:FILE:_files' \
            '--test-file=[the same, to predict; labels are not looked at]:FILE:_files' \
            '--regression[labels are numbers to come near to; else that is so where one is not whole]' \
            '--epochs=[how often each row is trained on; --steps says otherwise]:N: ' \
            '--max-seq=[tokens of a row, the rest is cut off; if not given 128, or what the model has]:N: ' \
            '--predict[write predictions of the test rows at the end]' \
            '--max-train-samples=[train on the first N rows only; 0\: all]:N: ' \
            '--max-eval-samples=[evaluate on the first N only]:N: ' \
            '--max-predict-samples=[predict the first N only]:N: ' \
            '--text-column=[the column (of an object\: the name) of the text; if not given a pair as GLUE'\''s tasks have them (sentence1 and sentence2, premise and hypothesis, question and sentence, question1 and question2), sentence, text, or the first two that are neither label nor id; of a run\: as it was trained]:NAME:_files' \
            '--pair-column=[of the second text, where rows are pairs]:NAME:_files' \
            '--label-column=[of the label, if it is not called label]:NAME:_files' \
            '--init=[begin with the model of a Hugging Face folder]:HFDIR:_files' \
            '--model=[begin with random parameters of this size, or of its family with the sizes that follow\: gpt2 (124M), gpt2-medium, gpt2-large, gpt2-xl, gpt2-2.7b, smollm2-135m, smollm2-360m, smollm2-1.7b, llama-3.2-1b, llama-3.2-3b, llama-3.1-8b, qwen2.5-0.5b, qwen2.5-1.5b, qwen2.5-3b, qwen2.5-7b, gemma-3-270m, gemma-3-1b, bert-base, bert-large, roberta-base, roberta-large]:model:(gpt2 gpt2-medium gpt2-large gpt2-xl gpt2-2.7b smollm2-135m smollm2-360m smollm2-1.7b llama-3.2-1b llama-3.2-3b llama-3.1-8b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b gemma-3-270m gemma-3-1b bert-base bert-large roberta-base roberta-large)' \
            '--n-layer=[layers of a model of your own\: a GPT-2 where there is no --model]:N: ' \
            '--n-head=[attention heads; they divide the width]:N: ' \
            '--n-kv-head=[heads of keys and values, which divide these; of --model'\''s family, if it has that]:N: ' \
            '--head-dim=[columns of a head, if not width / heads; the same]:N: ' \
            '--n-embd=[width]:N: ' \
            '--n-inner=[width of the MLP; the same]:N: ' \
            '--vocab=[words of the vocabulary; else the tokenizer'\''s, or 50257]:N: ' \
            '--steps=[steps to train; with --resume the run'\''s new end]:N: ' \
            '--schedule-steps=[horizon of the learning rate schedule, if not --steps; with --resume the new one, by which the rate is computed from there on]:N: ' \
            '--batch=[rows of a micro-batch]:N: ' \
            '--seq=[tokens of a row, if not all positions of the model (1024 of Llama'\''s and its kin'\''s); finetune\: the same as --max-seq]:N: ' \
            '--grad-accum=[micro-batches of a step, of all processes that share it]:N: ' \
            '--groups=[number of gradient groups of a step'\''s micro-batches; bits depend on it, not on how many processes share the groups; 0\: one for each process, so that other numbers of processes give other last bits]:N: ' \
            '--lr=[peak learning rate]:X: ' \
            '--min-lr=[learning rate at the end of the schedule]:X: ' \
            '--warmup=[linear warm-up\: steps, or % of the horizon]:N|PART: ' \
            '--schedule=[learning rate after the warm-up]:schedule:(cosine linear constant)' \
            '--optimizer=[as PyTorch has them]:optimizer:(adamw adam sgd adagrad)' \
            '--beta1=[first moment'\''s decay; sgd'\''s momentum]:X: ' \
            '--beta2=[second moment'\''s decay]:X: ' \
            '--eps=[added to the root of the second moment]:X: ' \
            '--weight-decay=[decoupled in adamw, added to the gradient elsewhere]:X: ' \
            '--decay=[which tensors decay]:decay:(matrices all)' \
            '--clip=[largest norm of the gradient; 0\: no clipping]:X: ' \
            '--seed=[of initial parameters and the order of the data]:N: ' \
            '--order=[of the rows of the data]:order:(shuffled sequential)' \
            '--mask-prob=[of a masked language model (BERT)\: how many of a row'\''s tokens it is asked for]:PART: ' \
            '--mask-id=[the id that masks them, where no tokenizer says it]:N: ' \
            '--dropout=[part of the embeddings, attention and branches that a step drops; finetune\: if not given, as config.json says]:PART: ' \
            '--dtype=[what forward and backward read\: parameters and inputs of products; sums are fp32]:dtype:(fp32 bf16)' \
            '--mode=[where states live and who updates\: all in RAM; host with states on drives; devices, naively; devices, buffers handed over; the same with compressed gradients]:mode:(mem base su su+o su+o+c)' \
            '--csd=[kind of the devices\: emulated; null, which answers at once, stores nothing and trains nothing; xrt, an FPGA beside each drive; opencl, an accelerator that OpenCL sees]:csd:(emu null xrt opencl)' \
            '--devices=[how many devices, as folders in RUN]:N: ' \
            '*--device=[a folder, file or block device for one device]:PATH:_files' \
            '*--act-device=[a folder, new file or block device for offloaded activations alone, which else lie behind the states of all devices; what is there does not outlive the training]:act-device:(none)' \
            '*--fpga=[with --csd xrt\: the card of one device, as `siTrain devices` calls it; given once a device, or not at all\: the card beside each drive is found]:ADDRESS:_files' \
            '--xclbin=[with --csd xrt\: the cards'\'' kernels]:FILE:_files' \
            '--force-device[take block devices that carry a signature or another run]' \
            '--device-in-ram[make device files on a tmpfs, too\: beside --host-mem, and gone with the power]' \
            '--csd-mem=[accelerator memory of a device, at most]:SIZE: ' \
            '--compress=[send the largest gradients only\: this part of the dense gradient'\''s bytes]:PART: ' \
            '--error-feedback[add what was not sent to the next step'\''s gradient]' \
            '--speculate[base, su+o\: update a block before the gradient'\''s norm is known, and again where it asks for clipping; the same bits, 1.4 times the space on disk]' \
            '--spare-slots=[places on the devices beside those of the states, for updates that run ahead of commits\: half as many as states, or few, an eighth, which is slower by some commits a step; auto\: half (with --speculate more) where that leaves a tenth of what is free, else few]:spare-slots:(auto half few)' \
            '--link-bw=[bytes a second of the modelled host link; 0\: unlimited]:SIZE: ' \
            '--csd-read-bw=[bytes a second that the modelled drive of a device reads if it does nothing else, reads and writes sharing its time; 0\: unlimited; several, with commas between\: of each device]:SIZE,..: ' \
            '--csd-write-bw=[that it writes if it does nothing else, in the same way]:SIZE,..: ' \
            '--csd-latency=[microseconds that a request to the modelled drive of a device takes beside its bytes; others are served meanwhile]:X: ' \
            '--topology=[a file that describes the modelled links as a tree (docs/topology.md), instead of --link-bw and --csd-...; it is read at each start]:topology:(none)' \
            '--host-mem=[RAM for the whole process, arenas of emulated devices apart; 0\: no promise]:SIZE: ' \
            '--activations=[what backward needs\: kept in RAM as far as there is room, and else recomputed; all recomputed; kept as far as there is room, and else written to the devices and read back; all three, part by part, as makes the measured steps shortest; or kept and written as SSDTrain'\''s rule says]:activations:(keep recompute offload auto ssdtrain)' \
            '--blas=[engine of the products; auto\: oneDNN (if built in) where the CPU has AVX-512, and for bf16 its bf16 products; else OpenBLAS]:blas:(auto openblas onednn)' \
            '--threads=[threads of the kernels; 0\: all cores that the process may use (mpirun without --bind-to none may leave it one or two); last bits depend on them]:N: ' \
            '--disk=[how devices are read and written; null stores nothing]:disk:(uring sync null)' \
            '--io-timeout=[seconds after which a device that gives no sign of life ends the run; 0\: never]:X: ' \
            '--rank-timeout=[several processes (mpirun)\: seconds after which one that does not answer the others ends the run, while they train; more than the slowest takes for two layers; 0\: never]:X: ' \
            '--endurance=[bytes that a drive may be written in its life (TBW)\: training warns where it would last less than a year]:SIZE: ' \
            '--durability=[step\: every step survives a power cut; none\: no flushes]:durability:(step none)' \
            '--commit-every=[steps between commits in mode mem]:N: ' \
            '--eval-every=[steps between evaluations; 0\: only at the end]:N: ' \
            '--log-every=[steps between lines; on a terminal, if above 1, between those that stay]:N: ' \
            '--max-skipped=[stop after so many steps in a row that were skipped since the loss or a gradient was not finite; 0\: never]:N: ' \
            '--keep-best[keep the model after the best evaluation in RUN/best, a Hugging Face folder]' \
            '--tensorboard=[write what each step and evaluation gave into this folder as TensorBoard reads it; auto\: RUN/tensorboard]:tensorboard:(none auto)' \
            '--quiet[print no line per step]' \
            '--help[what it takes]' ;;
    report)
        _arguments \
            '*:RUN:_files' \
            '--json[print JSON]' \
            '--csv[print lines of section,row,field,value; of several runs with the run before]' \
            '--html=[write a page with all figures and plots, whole in one file; of what is there only such a page is replaced]:FILE:_files' \
            '--sql=[print the answer to one question as a table, or as --csv or --json; list\: say which there are]:sql:(steps times curve breakdown breakdown_serial breakdown_steps phases waits update timeline traffic written overlap bandwidth drives devices memory evals choices skipped notices processes settings list)' \
            '--config[print the run'\''s options as a file that pretrain'\''s or finetune'\''s --config takes]' \
            '--openmetrics[print the run'\''s figures as OpenMetrics text, for Prometheus]' \
            '--trace=[write a timeline of some steps that Perfetto and chrome\://tracing open; only such a timeline is replaced]:FILE:_files' \
            '--trace-steps=[which\: steps A to B, as far as they are kept whole, or one; if not given the last 10]:A-B:_files' \
            '--help[what it takes]' ;;
    watch)
        _arguments \
            ':RUN:_files' \
            '--interval=[seconds between two looks]:X: ' \
            '--once[print one look, and end]' \
            '--help[what it takes]' ;;
    check)
        _arguments \
            ':RUN|HFDIR:_files' \
            '--repair[make again what can be\: wire parameters from their master, a superblock; mode mem goes back to the image before; give up damaged rows of measurements; cut a damaged log of run.db to where all else fits]' \
            '--disk=[how devices are read; if not given, as the run does]:disk:(uring sync)' \
            '--quiet[only what is damaged]' \
            '--help[what it takes]' ;;
    reshard)
        _arguments \
            ':RUN:_files' \
            '*--device=[a folder, new file or block device for one device; repeated]:PATH:_files' \
            '--devices=[or\: how many, as folders in RUN]:N: ' \
            '*--fpga=[with --csd xrt\: the card of one new device; given once a device, or not at all\: the card beside each drive is found]:ADDRESS:_files' \
            '--ranks=[for so many ranks, as a new run; --devices is then of each, if not as before]:N: ' \
            '--new-run=[with --ranks\: the new run'\''s folder, beside which those of its ranks are made]:NEW:_files' \
            '--csd-mem=[accelerator memory of a device, if not as before]:SIZE: ' \
            '--force-device[take block devices that carry a signature or another run]' \
            '--device-in-ram[make device files on a tmpfs, too]' \
            '--quiet[print nothing]' \
            '--help[what it takes]' ;;
    devices)
        _arguments \
            '--dir=[where to try the disks, with a file of 64K that is removed]:DIR:_files' \
            '--help[what it takes]' ;;
    bench)
        _arguments \
            ':WHAT:_files' \
            '--dir=[where files are made, on the disk that is measured; all are removed]:DIR:_files' \
            '--only=[these sections, with commas between; what they go by is measured too. parts, where the time of a step goes, is measured only where it is named]:only:_values -s , only products memory kernels disk update topk steps parts' \
            '--save=[write what plan --machine FILE goes by (only such a file is replaced); without --only, nothing else is measured]:FILE:_files' \
            '--probe[measure only what a prediction of this one model goes by, as plan does by itself]' \
            '--rounds=[of which medians are taken]:N: ' \
            '--quick[a small model and few rounds\: under 20 seconds]' \
            '--json=[write the figures as JSON, too (only such a file is replaced); - writes them to stdout instead of tables]:FILE:_files' \
            '--plot=[scaling, rok\: write what was measured as a picture (SVG); only such a picture is replaced]:FILE:_files' \
            '--layer-us=[network\: --steps of the model are driven, too, on devices that answer at once, with nothing computed\: a layer'\''s forward waits for so many microseconds, backward for twice as many, of each of --grad-accum micro-batches a rank]:N: ' \
            '--batches=[rok\: a point of each curve for each of these --batch]:N,..: ' \
            '--ways=[rok\: only these --activations, with commas between]:ways:_values -s , ways keep recompute offload auto ssdtrain' \
            '--init=[begin with the model of a Hugging Face folder]:HFDIR:_files' \
            '--model=[begin with random parameters of this size, or of its family with the sizes that follow\: gpt2 (124M), gpt2-medium, gpt2-large, gpt2-xl, gpt2-2.7b, smollm2-135m, smollm2-360m, smollm2-1.7b, llama-3.2-1b, llama-3.2-3b, llama-3.1-8b, qwen2.5-0.5b, qwen2.5-1.5b, qwen2.5-3b, qwen2.5-7b, gemma-3-270m, gemma-3-1b, bert-base, bert-large, roberta-base, roberta-large]:model:(gpt2 gpt2-medium gpt2-large gpt2-xl gpt2-2.7b smollm2-135m smollm2-360m smollm2-1.7b llama-3.2-1b llama-3.2-3b llama-3.1-8b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b gemma-3-270m gemma-3-1b bert-base bert-large roberta-base roberta-large)' \
            '--n-layer=[layers of a model of your own\: a GPT-2 where there is no --model]:N: ' \
            '--n-head=[attention heads; they divide the width]:N: ' \
            '--n-kv-head=[heads of keys and values, which divide these; of --model'\''s family, if it has that]:N: ' \
            '--head-dim=[columns of a head, if not width / heads; the same]:N: ' \
            '--n-embd=[width]:N: ' \
            '--n-inner=[width of the MLP; the same]:N: ' \
            '--vocab=[words of the vocabulary; else the tokenizer'\''s, or 50257]:N: ' \
            '--steps=[steps to train; with --resume the run'\''s new end]:N: ' \
            '--schedule-steps=[horizon of the learning rate schedule, if not --steps; with --resume the new one, by which the rate is computed from there on]:N: ' \
            '--batch=[rows of a micro-batch]:N: ' \
            '--seq=[tokens of a row, if not all positions of the model (1024 of Llama'\''s and its kin'\''s); finetune\: the same as --max-seq]:N: ' \
            '--grad-accum=[micro-batches of a step, of all processes that share it]:N: ' \
            '--groups=[number of gradient groups of a step'\''s micro-batches; bits depend on it, not on how many processes share the groups; 0\: one for each process, so that other numbers of processes give other last bits]:N: ' \
            '--lr=[peak learning rate]:X: ' \
            '--min-lr=[learning rate at the end of the schedule]:X: ' \
            '--warmup=[linear warm-up\: steps, or % of the horizon]:N|PART: ' \
            '--schedule=[learning rate after the warm-up]:schedule:(cosine linear constant)' \
            '--optimizer=[as PyTorch has them]:optimizer:(adamw adam sgd adagrad)' \
            '--beta1=[first moment'\''s decay; sgd'\''s momentum]:X: ' \
            '--beta2=[second moment'\''s decay]:X: ' \
            '--eps=[added to the root of the second moment]:X: ' \
            '--weight-decay=[decoupled in adamw, added to the gradient elsewhere]:X: ' \
            '--decay=[which tensors decay]:decay:(matrices all)' \
            '--clip=[largest norm of the gradient; 0\: no clipping]:X: ' \
            '--seed=[of initial parameters and the order of the data]:N: ' \
            '--order=[of the rows of the data]:order:(shuffled sequential)' \
            '--mask-prob=[of a masked language model (BERT)\: how many of a row'\''s tokens it is asked for]:PART: ' \
            '--mask-id=[the id that masks them, where no tokenizer says it]:N: ' \
            '--dropout=[part of the embeddings, attention and branches that a step drops; finetune\: if not given, as config.json says]:PART: ' \
            '--dtype=[what forward and backward read\: parameters and inputs of products; sums are fp32]:dtype:(fp32 bf16)' \
            '--mode=[where states live and who updates\: all in RAM; host with states on drives; devices, naively; devices, buffers handed over; the same with compressed gradients]:mode:(mem base su su+o su+o+c)' \
            '--csd=[kind of the devices\: emulated; null, which answers at once, stores nothing and trains nothing; xrt, an FPGA beside each drive; opencl, an accelerator that OpenCL sees]:csd:(emu null xrt opencl)' \
            '--devices=[how many devices, as folders in RUN]:N: ' \
            '*--device=[a folder, file or block device for one device]:PATH:_files' \
            '*--act-device=[a folder, new file or block device for offloaded activations alone, which else lie behind the states of all devices; what is there does not outlive the training]:act-device:(none)' \
            '*--fpga=[with --csd xrt\: the card of one device, as `siTrain devices` calls it; given once a device, or not at all\: the card beside each drive is found]:ADDRESS:_files' \
            '--xclbin=[with --csd xrt\: the cards'\'' kernels]:FILE:_files' \
            '--force-device[take block devices that carry a signature or another run]' \
            '--device-in-ram[make device files on a tmpfs, too\: beside --host-mem, and gone with the power]' \
            '--csd-mem=[accelerator memory of a device, at most]:SIZE: ' \
            '--compress=[send the largest gradients only\: this part of the dense gradient'\''s bytes]:PART: ' \
            '--error-feedback[add what was not sent to the next step'\''s gradient]' \
            '--speculate[base, su+o\: update a block before the gradient'\''s norm is known, and again where it asks for clipping; the same bits, 1.4 times the space on disk]' \
            '--spare-slots=[places on the devices beside those of the states, for updates that run ahead of commits\: half as many as states, or few, an eighth, which is slower by some commits a step; auto\: half (with --speculate more) where that leaves a tenth of what is free, else few]:spare-slots:(auto half few)' \
            '--link-bw=[bytes a second of the modelled host link; 0\: unlimited]:SIZE: ' \
            '--csd-read-bw=[bytes a second that the modelled drive of a device reads if it does nothing else, reads and writes sharing its time; 0\: unlimited; several, with commas between\: of each device]:SIZE,..: ' \
            '--csd-write-bw=[that it writes if it does nothing else, in the same way]:SIZE,..: ' \
            '--csd-latency=[microseconds that a request to the modelled drive of a device takes beside its bytes; others are served meanwhile]:X: ' \
            '--topology=[a file that describes the modelled links as a tree (docs/topology.md), instead of --link-bw and --csd-...; it is read at each start]:topology:(none)' \
            '--host-mem=[RAM for the whole process, arenas of emulated devices apart; 0\: no promise]:SIZE: ' \
            '--activations=[what backward needs\: kept in RAM as far as there is room, and else recomputed; all recomputed; kept as far as there is room, and else written to the devices and read back; all three, part by part, as makes the measured steps shortest; or kept and written as SSDTrain'\''s rule says]:activations:(keep recompute offload auto ssdtrain)' \
            '--blas=[engine of the products; auto\: oneDNN (if built in) where the CPU has AVX-512, and for bf16 its bf16 products; else OpenBLAS]:blas:(auto openblas onednn)' \
            '--threads=[threads of the kernels; 0\: all cores that the process may use (mpirun without --bind-to none may leave it one or two); last bits depend on them]:N: ' \
            '--disk=[how devices are read and written; null stores nothing]:disk:(uring sync null)' \
            '--io-timeout=[seconds after which a device that gives no sign of life ends the run; 0\: never]:X: ' \
            '--rank-timeout=[several processes (mpirun)\: seconds after which one that does not answer the others ends the run, while they train; more than the slowest takes for two layers; 0\: never]:X: ' \
            '--endurance=[bytes that a drive may be written in its life (TBW)\: training warns where it would last less than a year]:SIZE: ' \
            '--durability=[step\: every step survives a power cut; none\: no flushes]:durability:(step none)' \
            '--commit-every=[steps between commits in mode mem]:N: ' \
            '--eval-every=[steps between evaluations; 0\: only at the end]:N: ' \
            '--log-every=[steps between lines; on a terminal, if above 1, between those that stay]:N: ' \
            '--max-skipped=[stop after so many steps in a row that were skipped since the loss or a gradient was not finite; 0\: never]:N: ' \
            '--keep-best[keep the model after the best evaluation in RUN/best, a Hugging Face folder]' \
            '--tensorboard=[write what each step and evaluation gave into this folder as TensorBoard reads it; auto\: RUN/tensorboard]:tensorboard:(none auto)' \
            '--quiet[print no line per step]' \
            '--help[what it takes]' ;;
    esac
}
if [ "$funcstack[1]" = _siTrain ]; then
    _siTrain "$@"
else
    compdef _siTrain siTrain
fi

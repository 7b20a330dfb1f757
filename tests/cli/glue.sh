#!/bin/sh
# GLUE's own rows and a real GPT-2, fine-tuned for some steps. Prints TAP. Needs the folder $SITRAIN_DATA with glue/ and gpt2-30m/.
. tests/tap.sh

glue=${SITRAIN_DATA:-}/glue model=${SITRAIN_DATA:-}/gpt2-30m
if [ -z "${SITRAIN_DATA:-}" ] || [ ! -d "$glue/CoLA" ] || [ ! -d "$model" ]; then
    skip "GLUE's own rows" "SITRAIN_DATA with glue/CoLA and gpt2-30m/ is not there"
    done_testing
fi

for task in CoLA WNLI; do
    works "$task" finetune --run "$tmp/$task" --task $task --data "$glue/$task" --init "$model" --steps 2 --batch 4 \
        --max-eval-samples 16 --mode mem --durability none
done

done_testing

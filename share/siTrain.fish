# fish completion of siTrain: as siTrain.fish into ~/.config/fish/completions
function __siTrain_offered
    set -l typed (commandline -opc)
    set -l word (commandline -ct)
    set -l program (string replace -r '^~(?=/)' $HOME -- $typed[1])
    set -l offered (command $program --completion fish $typed[2..-1] "$word" 2>/dev/null)
    if test "$offered" = /
        __fish_complete_path "$word"
    else
        printf '%s\n' $offered
    end
end
complete -c siTrain -f -a '(__siTrain_offered)'

# finetuned.sh: what chat.sh and dpo.sh have in common; sourced behind tap.sh, with $task set.

compare() { # NAME ARGUMENTS of chat_fixture.py
    name=$1
    shift
    python3 tests/cli/chat_fixture.py "$@" >"$tmp/out" 2>"$tmp/err"
    result $? "$name: $(tail -n 1 "$tmp/out")"
}
column() { sqlite3 "$tmp/$1/run.db" "SELECT $2 FROM steps ORDER BY step"; }
finetuned() { # NAME ARGUMENTS...: a run; what it exports in $hash
    name=$1
    shift
    run finetune --task "$task" --run "$tmp/$name" --durability none --quiet "$@"
    cp "$tmp/err" "$tmp/$name.err"
    hash=
    [ "$got" = 0 ] && hash=$(exported "$tmp/$name")
}

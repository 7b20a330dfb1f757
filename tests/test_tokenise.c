/* test_tokenise.c: tokenise_files gives the ids that the tokenizer gives of a whole text, with any
 * number of threads, with pieces cut or held; killed again and again, it goes on to the same bytes.
 * Each call is a process of its own, because a process that is killed must be. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/json/json.h"
#include "run/texts/tokenise.h"
#include "tests/tempdir.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_BYTES = 9 << 20 }; // some blocks
static struct err e;

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

/* A text of so many bytes, with line ends of all kinds, and no line end for a long way. */
static char *text_make(size_t n, uint64_t seed)
{
    static const char *const words[] = { "the", "Sea", " ", "caf\xC3\xA9", "12", "ships", ". ", "!",
                                         "\xE4\xB8\xAD\xE6\x96\x87", "e\xCC\x81", "a", "it's" };
    char  *text = malloc(n + 16);
    size_t at = 0;

    assert_non_null(text);
    while (at < n) {
        uint64_t    end = draw(&seed, 60);
        const char *add = words[draw(&seed, sizeof words / sizeof *words)];
        int         ends = at < n / 2 || at > n / 2 + n / 4;

        memcpy(text + at, add, strlen(add));
        at += strlen(add);
        text[at++] = (char)(end == 0 && ends ? '\n' : end == 1 && ends ? '\r' : ' ');
        if (end == 1 && ends)
            text[at++] = '\n';
    }
    text[at] = '\0'; // a little longer than n
    return text;
}

/* ---- a process ---- */

static uint64_t kill_at, blocks; // SIGKILL after so many blocks, if not 0; of this process
static int      stops;           // or an end that was asked for
static int      counts;          // blocks are under way
static int      stops_going, goes; // or an end while it goes to its place
static char     said[4096];

static void begins(void *ctx, const char *what)
{
    (void)ctx;
    counts = !strncmp(what, "tokenising", 10);
    goes = !strncmp(what, "going", 5);
}

static void goes_on(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx, (void)done, (void)total;
    blocks += (uint64_t)counts;
    if (counts && blocks == kill_at && !stops)
        raise(SIGKILL);
}

static int asked(void *ctx)
{
    (void)ctx;
    return (stops && kill_at && blocks >= kill_at) || (stops_going && goes);
}

static void notice(void *ctx, const char *sentence)
{
    (void)ctx;
    strncat(said, sentence, sizeof said - strlen(said) - 1);
}

static const struct events events = { .notice = notice, .work_begins = begins,
                                      .work_goes_on = goes_on, .asked_to_stop = asked };

enum { KILLED = 99 };

/* Calls tokenise_files in a process of its own. Returns its exit code, or KILLED. What it said is
 * in the file "said". */
static int call(const char *tok, struct tokenise_files f, const char *out)
{
    pid_t pid = fork();
    int   status;

    if (!pid) {
        struct err why = { 0 };
        int        rc = tokenizer_open(&f.tok, tok, &why);

        rc = rc ? rc : tokenise_files(&f, out, &events, &why);
        notice(NULL, why.text);
        tempdir_put("said", said, strlen(said));
        tokenizer_close(f.tok);
        _exit(rc ? why.stopped ? 3 : why.misuse ? 2 : 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? KILLED : WEXITSTATUS(status);
}

static int has_said(const char *what)
{
    char  *text;
    size_t n;
    int    has;

    assert_int_equal(file_read_whole(&text, &n, tempdir_at("said"), 1 << 20, &e), 0);
    has = strstr(text, what) != NULL;
    free(text);
    return has;
}

static void same_files(const char *a, const char *b)
{
    char  *one, *other;
    size_t n, m;

    assert_int_equal(file_read_whole(&one, &n, tempdir_at(a), 1 << 30, &e), 0);
    assert_int_equal(file_read_whole(&other, &m, tempdir_at(b), 1 << 30, &e), 0);
    assert_int_equal(n, m);
    assert_memory_equal(one, other, n);
    free(one);
    free(other);
}

/* How many files of the folder are under way. */
static int left_over(void)
{
    DIR           *d = opendir(tempdir_at("."));
    struct dirent *entry;
    int            n = 0;

    assert_non_null(d);
    while ((entry = readdir(d)))
        n += strstr(entry->d_name, ".tmp") != NULL;
    closedir(d);
    return n;
}

/* ---- */

static char *tokenizer_dir(const json_t *kind)
{
    char *path = strdup(tempdir_at("tokenizer.json"));

    assert_int_equal(json_write(json_object_get(kind, "tokenizer"), path, 0, &e), 0);
    *strrchr(path, '/') = '\0';
    return path;
}

/* The ids of the text as tokenizer_encode gives them, with the template, are those of the file. */
static void check_ids(const char *tok, const char *text, size_t n, const char *out)
{
    struct tokenizer *t;
    struct tokens    *file;
    struct token_buf  want = { 0 };

    assert_int_equal(tokenizer_open(&t, tok, &e), 0);
    assert_int_equal(tokenizer_put(t, TOKENIZER_BEFORE, &want, &e), 0);
    assert_int_equal(tokenizer_encode(t, text, n, &want, &e), 0);
    assert_int_equal(tokenizer_put(t, TOKENIZER_BEHIND, &want, &e), 0);
    if (tokens_open(&file, tempdir_at(out), 2, &e))
        fail_msg("%s", e.text);
    assert_int_equal(file->count, want.n);
    int32_t *got = malloc((want.n + 1) * sizeof *got);
    assert_non_null(got);
    assert_int_equal(tokens_read(file, 0, want.n, tokenizer_vocab(t), got, &e), 0);
    assert_memory_equal(got, want.ids, want.n * sizeof *got);
    free(got);
    tokens_close(file);
    token_buf_free(&want);
    tokenizer_close(t);
}

/* Kinds whose texts are cut, and one whose pieces are held. */
static void test_kinds(void **state)
{
    static const char *const names[] = { "smollm", "qwen2", "roberta, a space before", "bert",
                                         "words", "across words" };
    char       *text = text_make(TEXT_BYTES, 1);
    size_t      n = strlen(text);
    const char *path = strdup(tempdir_at("a.txt"));
    json_t     *kinds;

    (void)state;
    tempdir_put("a.txt", text, n);
    assert_int_equal(json_read(&kinds, "tests/fixtures/tokenizers.json", (size_t)1 << 30, &e), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *tok = tokenizer_dir(json_object_get(kinds, names[i]));

        print_message("# %s\n", names[i]);
        for (uint64_t threads = 1; threads < 4; threads += 2) {
            struct tokenise_files f = { .texts = &path, .n = 1, .threads = threads };

            if (call(tok, f, tempdir_at("a.bin")))
                fail_msg("%d", has_said(""));
            check_ids(tok, text, n, "a.bin");
        }
        free(tok);
    }
    json_decref(kinds);
    free(text);
    free((char *)(uintptr_t)path);
}

struct scene { char *tok; const char *paths[2]; };

/* A text, rows, and a tokenizer for them. */
static void scene_make(struct scene *s)
{
    char  *text = text_make(TEXT_BYTES, 2), *rows = malloc(2 * TEXT_BYTES);
    size_t n = 0;

    assert_non_null(rows);
    for (size_t at = 0, end; at < TEXT_BYTES - 4096; at = end) {
        for (end = at + 4000; ((unsigned char)text[end] & 0xC0) == 0x80; end++)
            ; // not within a character
        json_t *row = json_pack("{s:i, s:s%}", "id", (int)at, "text", text + at, end - at);
        char   *line = json_dumps(row, JSON_COMPACT);

        assert_non_null(line);
        n += (size_t)sprintf(rows + n, "%s\n", line);
        free(line);
        json_decref(row);
    }
    tempdir_put("a.txt", text, strlen(text));
    tempdir_put("b.jsonl", rows, n);
    s->paths[0] = strdup(tempdir_at("a.txt"));
    s->paths[1] = strdup(tempdir_at("b.jsonl"));
    s->tok = strdup(tempdir_at("tok"));
    pid_t pid = fork();
    if (!pid) {
        struct tokenise_train t = { .texts = s->paths, .n = 1, .vocab = 300, .dir = s->tok };
        int                   rc = tokenise_train(&t, NULL, &e);

        if (rc)
            fprintf(stderr, "%s\n", e.text);
        _exit(rc != 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    free(text);
    free(rows);
}

static void scene_free(struct scene *s)
{
    for (size_t i = 0; i < 2; i++)
        free((char *)(uintptr_t)s->paths[i]);
    free(s->tok);
}

/* Killed after each block or two, or stopped, it goes on to the same bytes. */
static void test_killed(void **state)
{
    struct scene s;
    uint64_t     seed = 3;
    char         evals[2][512];

    (void)state;
    scene_make(&s);
    for (int split = 0; split < 2; split++)
        for (stops = 0; stops < 2; stops++) {
            struct tokenise_files f = { .texts = s.paths, .n = 2, .threads = 2, .goes_on = s.tok,
                                        .save_ns = 1 };
            int                   rc, ends = 0;

            if (split) {
                f.split = 0.2;
                snprintf(evals[0], sizeof evals[0], "%s", tempdir_at("want.eval"));
                snprintf(evals[1], sizeof evals[1], "%s", tempdir_at("got.eval"));
                f.split_out = evals[0];
            }
            kill_at = 0;
            assert_int_equal(call(s.tok, f, tempdir_at("want.bin")), 0);
            f.split_out = split ? evals[1] : NULL;
            do {
                kill_at = 2 + draw(&seed, 3); // the first look is before the first block
                rc = call(s.tok, f, tempdir_at("got.bin"));
                ends++;
                assert_true(!rc || rc == (stops ? 3 : KILLED));
                if (rc)
                    assert_false(access(tempdir_at("got.bin"), F_OK) == 0);
                else
                    assert_true(has_said("it goes on behind"));
            } while (rc && ends < 200);
            assert_int_equal(rc, 0);
            assert_true(ends > 2);
            same_files("want.bin", "got.bin");
            if (split)
                same_files("want.eval", "got.eval");
            assert_int_equal(left_over(), 0);
            unlink(tempdir_at("got.bin"));
            unlink(tempdir_at("got.eval"));
        }

    // stopped on the way to the place, it loses nothing
    struct tokenise_files f = { .texts = s.paths, .n = 2, .threads = 2, .goes_on = s.tok,
                                .save_ns = 1, .split = 0.2, .split_out = evals[1] };
    stops = 0;
    kill_at = 3;
    assert_int_equal(call(s.tok, f, tempdir_at("got.bin")), KILLED);
    kill_at = 0;
    stops_going = 1;
    assert_int_equal(call(s.tok, f, tempdir_at("got.bin")), 3);
    assert_true(has_said("the same command goes on behind"));
    assert_int_equal(left_over(), 2);
    stops_going = 0;
    assert_int_equal(call(s.tok, f, tempdir_at("got.bin")), 0);
    assert_true(has_said("it goes on behind"));
    same_files("want.bin", "got.bin");
    same_files("want.eval", "got.eval");
    scene_free(&s);
}

/* What was left of other files or options is removed, and all begins anew; what is not ours stays.
 */
static void test_other(void **state)
{
    struct scene          s;
    struct tokenise_files f;

    (void)state;
    scene_make(&s);
    f = (struct tokenise_files){ .texts = s.paths, .n = 2, .threads = 2, .goes_on = s.tok,
                                 .save_ns = 1 };
    stops = 0;
    kill_at = 3;
    assert_int_equal(call(s.tok, f, tempdir_at("got.bin")), KILLED);
    assert_int_equal(left_over(), 1);
    tempdir_put("got.bin.0123456789abcdef.tmp", "x", 1); // its sum is wrong
    kill_at = 0;
    f.n = 1;
    assert_int_equal(call(s.tok, f, tempdir_at("got.bin")), 0);
    assert_true(has_said("all begins anew"));
    assert_int_equal(left_over(), 1);
    f.goes_on = NULL;
    assert_int_equal(call(s.tok, f, tempdir_at("want.bin")), 0);
    same_files("want.bin", "got.bin");

    // another text of the same length, with the time of the old one
    struct stat st;
    int         fd = open(s.paths[0], O_WRONLY);

    f.goes_on = s.tok;
    kill_at = 3;
    assert_int_equal(call(s.tok, f, tempdir_at("got.bin")), KILLED);
    assert_true(fd >= 0 && !fstat(fd, &st) && pwrite(fd, "x", 1, 100) == 1);
    assert_int_equal(futimens(fd, (const struct timespec[]){ st.st_atim, st.st_mtim }), 0);
    close(fd);
    kill_at = 0;
    assert_int_equal(call(s.tok, f, tempdir_at("got.bin")), 0);
    assert_true(has_said("all begins anew"));
    f.goes_on = NULL;
    assert_int_equal(call(s.tok, f, tempdir_at("want.bin")), 0);
    same_files("want.bin", "got.bin");
    scene_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = { IN_TEMPDIR(test_kinds), IN_TEMPDIR(test_killed),
                                        IN_TEMPDIR(test_other) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

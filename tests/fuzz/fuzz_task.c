/* fuzz_task.c: the files of tasks: GLUE's layouts, and one's own as TSV, CSV and JSON lines. */
#include "tests/fuzz/fuzz.h"

#include "data/task/task.h"

#include <string.h>
#include <zstd.h>

enum { MOST = 50 };

struct seen { const struct task *task; size_t rows, labelled, last_line; };

static int row(void *ctx, const struct task_row *r, struct err *err)
{
    struct seen *s = ctx;
    int32_t      label;
    float        value;
    struct err   of_label = { 0 };
    int          rc = task_label(s->task, r, &label, &value, &of_label);

    (void)err;
    FUZZ_CHECK(r->text1 && r->line > s->last_line);
    s->rows++;
    s->last_line = r->line;
    if (rc)
        return fuzz_refused(rc, &of_label);
    FUZZ_CHECK(label >= 0 && (size_t)label < s->task->n_labels && value - value == 0);
    s->labelled++;
    return 0;
}

static int glue(size_t which, int test, uint64_t most)
{
    const struct task *t = &task_table[which % task_count];
    struct seen        s = { .task = t };
    struct err         err = { 0 };
    int rc = task_read_glue(fuzz_path("x.tsv"), test ? &t->test : &t->train, most, row, &s, &err);

    FUZZ_CHECK(!most || s.rows <= most);
    return rc ? fuzz_refused(rc, &err) : 1;
}

/* The task that a file of one's own defines knows the label of each of its rows. */
static int own(const char *name, const struct task_names *names, int regression)
{
    struct task *t;
    struct seen  s = { 0 };
    struct err   err = { 0 };
    char        *paths[] = { (char *)(uintptr_t)fuzz_path(name) };
    int          rc = task_own(&t, paths, 1, names, regression, &err);

    if (rc)
        return fuzz_refused(rc, &err);
    s.task = t;
    FUZZ_CHECK(!task_read_own(fuzz_path(name), names, 0, row, &s, &err) && s.rows > 0 &&
               s.labelled == s.rows);
    task_own_free(t);
    return 1;
}

static int one(const uint8_t *bytes, size_t n)
{
    static const char *const       names[] = { "x.tsv", "x.csv", "x.jsonl" };
    static const struct task_names asked = { "a", "b", "c" };
    struct fuzz_in           in = { bytes, n };
    unsigned                 how = (unsigned)fuzz_number(&in, 1);
    const char              *name = names[how % 3];

    if (ZSTD_getFrameContentSize(in.p, in.n) != ZSTD_CONTENTSIZE_ERROR)
        return 0; // its window is beyond this target's memory; fuzz_chat has files of zstd
    if (how < 128) {
        fuzz_put("x.tsv", in.p, in.n);
        return glue(how / 4, how & 1, how & 2 ? MOST : 0);
    }
    fuzz_put(name, in.p, in.n);
    return own(name, how & 8 ? &asked : NULL, how & 4);
}

static void seed_of(unsigned how, const char *text)
{
    struct fuzz_out out = { 0 };

    fuzz_add_number(&out, how, 1);
    fuzz_add(&out, text, strlen(text));
    fuzz_seed_out(&out);
}

static void seeds(void)
{
    static const char *const glue_rows[] = { "gj04\t1\t\tThey drank.\ngj04\t0\t*\tHim ran.\n",
                                             "sentence\tlabel\na fine film\t1\na \"dull\" one\t0\n",
                                             "Quality\t#1 ID\t#2 ID\t#1 String\t#2 "
                                             "String\n1\t1\t2\tHe said so.\tSo he said.\n",
                                             "index\tgenre\tfilename\tyear\told\tsource1\tsource2\t"
                                             "sentence1\tsentence2\tscore\n0\tm\tn\t2\to\tnone\tnon"
                                             "e\tA man.\tA boy.\t2.5\n",
                                             "id\tqid1\tqid2\tquestion1\tquestion2\tis_"
                                             "duplicate\n1\t2\t3\tWhy?\tHow?"
                                             "\t0\n5\t6\t7\ttorn\n8\t9\t10\t\tWho?\t1\n",
                                             ("index\tpromptID\tpairID\tgenre\tb1\tb2\tp1\tp2\tsent"
                                              "ence1\tsentence2\tlabel1\tgold_label\n"
                                              "0\t1\t2\tf\tb\tb\tp\tp\tA.\tB.\tneutral\tneutral\n"),
                                             "index\tquestion\tsentence\tlabel\n0\tWhen?\tNow."
                                             "\tentailment\n",
                                             "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_"
                                             "entailment\n",
                                             "index\tsentence1\tsentence2\tlabel\r\n0\tA.\tB."
                                             "\t1\r\n" };

    for (unsigned i = 0; i < sizeof glue_rows / sizeof *glue_rows; i++)
        seed_of(4 * i, glue_rows[i]);
    seed_of(1, "index\tsentence\n0\tBill ran.\n");
    seed_of(129, "\xEF\xBB\xBFsentence1\tsentence2\tlabel\nA\tB\tx\nC\tD\ty\n");
    seed_of(130, "label,sentence\n1,\"a, \"\"b\"\"\nc\"\n0,d\r\n");
    seed_of(131, "{\"sentence\": \"a\", \"label\": 1}\n{\"sentence\": \"b\\u00e9\", \"label\": "
                 "\"no\"}\n");
    seed_of(131, "{\"text\": \"a\", \"other\": \"b\", \"label\": 1.5}\n\n{\"label\": 2, \"text\": "
                 "\"c\", \"other\": \"d\"}\n");
    seed_of(129, "\tlabel\nA\tx\nB\ty\n"); // a first column without a name
    seed_of(139, "c,b,a\nx,y,z\ny,z,w\n");
    seed_of(140, "{\"a\": \"x\", \"b\": \"y\", \"c\": 1}\n{\"a\": \"x\", \"b\": \"y\", \"c\": "
                 "2}\n");
    seed_of(130, "sentence;label\nx;0\n\"y\";1\n");
    seed_of(134, "a,b,label\nx,y,0.5\nz,w,1e3\n");
}

/* A reader's block of fields and a buffer of stdio; the rest grows with the rows. */
const struct fuzz_target fuzz_task = { "task", NULL, one, seeds, 1 << 18, 256, 3000 };

/* test_tokens.c: token files as they are written, detected, refused and checked; and file.h
 * beneath them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/file/file.h"
#include "data/json/json.h"
#include "data/text/tokens.h"
#include "data/text/tokens_writer.h"
#include "tests/files.h"
#include "tests/tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err e;

/* A file of ids 0..n (mod vocab), in odd pieces. */
static void write_ids_of(const char *name, size_t n, size_t vocab)
{
    struct tokens_writer w;
    int32_t               ids[1000];

    assert_int_equal(tokens_writer_open(&w, tempdir_at(name), vocab, &e), 0);
    for (size_t done = 0, part = 1; done < n; done += part, part = part % 1000 + 1) {
        if (part > n - done)
            part = n - done;
        for (size_t i = 0; i < part; i++)
            ids[i] = (int32_t)((done + i) % vocab);
        assert_int_equal(tokens_writer_add(&w, ids, part, &e), 0);
    }
    assert_int_equal(tokens_writer_commit(&w, &e), 0);
    assert_int_equal(w.count, n);
    append_close(&w.ids);
}

static void write_ids(const char *name, size_t n) { write_ids_of(name, n, 65536); }

static void test_round_trip(void **state)
{
    struct tokens   *t;
    unsigned         width;
    struct stat      st;
    int32_t         *ids = malloc(100001 * sizeof *ids);

    (void)state;
    write_ids("a.bin", 100001);
    assert_int_equal(stat(tempdir_at("a.bin"), &st), 0);
    assert_int_equal(st.st_size, 1024 + 2 * 100001);
    assert_int_equal(tokens_detect(tempdir_at("a.bin"), TOKENS_AUTO, 65536, &width, NULL, &e), 0);
    assert_int_equal(width, 2);
    assert_int_equal(tokens_open(&t, tempdir_at("a.bin"), 4, &e), 0); // the header knows better
    assert_int_equal(t->count, 100001);
    assert_int_equal(tokens_read(t, 0, 100001, 65536, ids, &e), 0);
    for (int i = 0; i < 100001; i++)
        assert_int_equal(ids[i], i & 65535);
    assert_int_equal(tokens_read(t, 100000, 1, 65536, ids, &e), 0);
    assert_int_equal(tokens_read(t, 100001, 0, 65536, ids, &e), 0);
    assert_int_equal(tokens_read(t, 100000, 2, 65536, ids, &e), -EINVAL);
    assert_int_equal(tokens_read(t, UINT64_MAX, 2, 65536, ids, &e), -EINVAL);
    assert_int_equal(tokens_read(t, 0, 600, 500, ids, &e), -EINVAL);
    assert_true(e.misuse && strstr(e.text, "id 500 at position 500"));
    tokens_close(t);
    free(ids);
}

/* A vocabulary of one id more than 16 bits hold takes llm.c's format for Llama 3. */
static void test_wide(void **state)
{
    enum { N = 70001, AT = 65536 };
    struct tokens      *t;
    unsigned            width;
    int32_t             header[3], *ids = malloc(2 * N * sizeof *ids);
    uint32_t            sums[1], beyond = 0x80000005u;
    FILE               *f;

    (void)state;
    write_ids_of("a.bin", N, N);
    f = fopen(tempdir_at("a.bin"), "r+");
    assert_int_equal(fread(header, sizeof header, 1, f), 1);
    assert_int_equal(header[0], 20240801);
    assert_int_equal(header[1], 7);
    assert_int_equal(header[2], N);
    assert_int_equal(tokens_detect(tempdir_at("a.bin"), TOKENS_U32, 500, &width, NULL, &e), 0);
    assert_int_equal(width, 4);
    assert_int_equal(tokens_detect(tempdir_at("a.bin"), TOKENS_U16, N, &width, NULL, &e), -EINVAL);
    assert_non_null(strstr(e.text, "has llm.c's header, which says uint32 ids"));
    assert_int_equal(tokens_open(&t, tempdir_at("a.bin"), 2, &e), 0);
    assert_int_equal(t->count, N);
    assert_int_equal(t->size, 1024 + 4 * N);
    assert_int_equal(tokens_hash(t, sums, NULL, &e), 0);
    for (int summed = 0; summed < 2; summed++) {
        assert_int_equal(tokens_read(t, 0, N, N, ids, &e), 0);
        for (int i = 0; i < N; i++)
            assert_int_equal(ids[i], i);
        assert_int_equal(tokens_row(t, 0, AT, N, ids, ids + N, &e), 0);
        assert_int_equal(ids[N + AT - 1], AT);
        assert_int_equal(tokens_expect(t, sums, 1, &e), 0);
    }
    assert_int_equal(tokens_read(t, 0, N, AT, ids, &e), -EINVAL);
    assert_true(e.misuse && strstr(e.text, "id 65536 at position 65536"));
    tokens_close(t);
    fseek(f, 1024 + 4, SEEK_SET); // no id of a model: as int32 it would be negative
    assert_int_equal(fwrite(&beyond, sizeof beyond, 1, f), 1);
    fclose(f);
    assert_int_equal(tokens_open(&t, tempdir_at("a.bin"), 2, &e), 0);
    assert_int_equal(tokens_read(t, 0, 2, INT32_MAX, ids, &e), -EINVAL);
    assert_true(e.misuse && strstr(e.text, "id 2147483653 at position 1"));
    tokens_close(t);
    free(ids);
}

static void test_writer_leaves_nothing(void **state)
{
    struct tokens_writer w;
    int32_t               bad[2] = { 65535, 65536 }, neg = -1;

    (void)state;
    assert_int_equal(tokens_writer_open(&w, tempdir_at("a.bin"), 65536, &e), 0);
    assert_int_equal(tokens_writer_add(&w, bad, 1, &e), 0);
    assert_int_equal(tokens_writer_add(&w, bad, 2, &e), -EINVAL);
    assert_int_equal(tokens_writer_add(&w, &neg, 1, &e), -EINVAL);
    assert_int_equal(files_count(tempdir), 1);
    append_close(&w.ids);
    assert_int_equal(files_count(tempdir), 0);
    append_close(&w.ids);
    assert_true(tokens_writer_open(&w, tempdir_at("no/such/folder.bin"), 1, &e) < 0);
}

static void test_new_file(void **state)
{
    struct file_new f = { 0 };
    struct stat     st;
    mode_t          mask = umask(027);

    (void)state;
    file_new_abort(&f); // the zero state
    assert_int_equal(file_new_open(&f, tempdir_at("x"), &e), 0);
    assert_int_equal(file_pwrite(f.fd, "hello", 5, 0, "x", &e), 0);
    assert_true(access(tempdir_at("x"), F_OK) != 0);
    assert_int_equal(file_new_commit(&f, &e), 0);
    file_new_abort(&f);
    umask(mask);
    assert_int_equal(stat(tempdir_at("x"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(files_count(tempdir), 1);
}

static void test_refusals(void **state)
{
    struct tokens *t;
    int32_t        header[256] = { 20240520, 1, 10 };

    (void)state;
    tempdir_put("short.bin", header, 100);
    assert_int_equal(tokens_open(&t, tempdir_at("short.bin"), 2, &e), -EINVAL);
    tempdir_put("size.bin", header, 1024);
    assert_int_equal(tokens_open(&t, tempdir_at("size.bin"), 2, &e), -EINVAL);
    assert_non_null(strstr(e.text, "1044"));
    assert_non_null(strstr(e.text, "1024"));
    header[2] = -512;
    tempdir_put("neg.bin", header, 1024);
    assert_int_equal(tokens_open(&t, tempdir_at("neg.bin"), 2, &e), -EINVAL);
    header[1] = 7;
    tempdir_put("version.bin", header, 1024);
    assert_int_equal(tokens_open(&t, tempdir_at("version.bin"), 2, &e), -EINVAL);
    assert_non_null(strstr(e.text, "of version 7, but"));
    header[0] = 20240801;
    header[1] = 1;
    tempdir_put("version.bin", header, 1024);
    assert_int_equal(tokens_open(&t, tempdir_at("version.bin"), 2, &e), -EINVAL);
    assert_non_null(strstr(e.text, "only version 7 (uint32 ids) is known"));
    header[1] = 7;
    header[2] = 10;
    tempdir_put("size.bin", header, 1024);
    assert_int_equal(tokens_open(&t, tempdir_at("size.bin"), 2, &e), -EINVAL);
    assert_non_null(strstr(e.text, "10 tokens of uint32, which take 1064"));
    tempdir_put("short.bin", header, 12);
    assert_int_equal(tokens_open(&t, tempdir_at("short.bin"), 2, &e), -EINVAL);
    assert_non_null(strstr(e.text, "less than the header's 1024"));
    tempdir_put("odd.bin", "abc", 3);
    assert_int_equal(tokens_open(&t, tempdir_at("odd.bin"), 2, &e), -EINVAL);
    assert_int_equal(tokens_open(&t, tempdir_at("absent.bin"), 2, &e), -ENOENT);
    assert_int_equal(tokens_open(&t, tempdir, 2, &e), -EINVAL);
    assert_null(t);
    assert_int_equal(mkfifo(tempdir_at("fifo"), 0600), 0);
    assert_int_equal(tokens_open(&t, tempdir_at("fifo"), 2, &e), -EINVAL); // and does not hang
}

/* What tokens_detect says of them: 0 for a text, the bytes of an id, or -1 and a sentence. */
static int detect(const char *name, const void *bytes, size_t n, enum tokens_format as,
                  size_t vocab)
{
    unsigned width = 9;

    tempdir_put(name, bytes, n);
    int rc = tokens_detect(tempdir_at(name), as, vocab, &width, NULL, &e);
    if (rc) {
        assert_int_equal(rc, -EINVAL);
        assert_true(e.misuse);
    }
    return rc ? -1 : (int)width;
}

static void refused(const char *text)
{
    if (!strstr(e.text, text))
        fail_msg("\"%s\" is not in: %s", text, e.text);
}

static void test_detect(void **state)
{
    size_t n = ((size_t)1 << 20) + 4;
    char  *big = malloc(n);

    (void)state;
    assert_int_equal(detect("t", "na\xc3\xafve\n", 7, TOKENS_AUTO, 300), 0);
    assert_int_equal(detect("t.bin", "na\xc3\xafve\n", 7, TOKENS_AUTO, 300), 0);
    assert_int_equal(detect("t", "a\nb\nabc\xe2\x82", 9, TOKENS_AUTO, 300), -1); // cut off
    refused("t is not UTF-8: byte 7, in line 3, is 0xE2; if it is Latin-1: iconv -f LATIN1 -t ");
    assert_int_equal(detect("t", "\xed\xa0\x80\x20", 4, TOKENS_AUTO, 300), -1); // a surrogate
    assert_int_equal(detect("t", "", 0, TOKENS_AUTO, 300), -1);
    refused("t is empty");
    memset(big, 'x', n);
    memcpy(big + (1 << 20) - 1, "\xe2\x82\xac", 3); // across the piece
    assert_int_equal(detect("t", big, n, TOKENS_AUTO, 300), 0);
    big[70] = '\n';
    big[n - 2] = 0;
    assert_int_equal(detect("t", big, n, TOKENS_AUTO, 300), -1);
    refused("t is not a text: byte 1048578, in line 2, is 0x00 (NUL)");
    memcpy(big + (1 << 20) - 1, "\xe2\x28\xac", 3); // across the piece, and wrong there
    assert_int_equal(detect("t", big, n, TOKENS_AUTO, 300), -1);
    refused("byte 1048575, in line 2, is 0xE2");
    free(big);
}

/* Ids without a header: only of a file that is called so, and as wide as they are. */
static void test_headerless(void **state)
{
    uint16_t ids[64];
    uint32_t wide[64];
    uint64_t widest[64];
    char     letters[] = "a\0b\0c\0d\0";

    (void)state;
    for (size_t i = 0; i < 64; i++)
        widest[i] = wide[i] = ids[i] = (uint16_t)(i * 391 + 3);
    assert_int_equal(detect("t", ids, sizeof ids, TOKENS_AUTO, 50257), -1);
    refused("token ids without a header are read where the name ends in .bin, or with "
            "--data-format");
    assert_int_equal(detect("t.bin", ids, sizeof ids, TOKENS_AUTO, 50257), 2);
    assert_int_equal(detect("t", ids, sizeof ids, TOKENS_U16, 50257), 2);
    assert_int_equal(detect("t.bin", ids, sizeof ids, TOKENS_AUTO, 128256), 4);
    assert_int_equal(detect("t.bin", ids, sizeof ids, TOKENS_U16, 128256), 2);
    assert_int_equal(detect("t.bin", ids, sizeof ids, TOKENS_TEXT, 50257), -1);
    assert_int_equal(detect("t.bin", wide, sizeof wide, TOKENS_AUTO, 50257), -1);
    refused("t.bin holds uint32 ids, as its zeros show, and would be read as uint16: give "
            "--data-format u32");
    assert_int_equal(detect("t.bin", wide, sizeof wide, TOKENS_U16, 50257), -1);
    assert_int_equal(detect("t.bin", wide, sizeof wide, TOKENS_U32, 50257), 4);
    assert_int_equal(detect("t.bin", wide, sizeof wide, TOKENS_AUTO, 65536), -1);
    assert_int_equal(detect("t.bin", wide, sizeof wide, TOKENS_AUTO, 65537), 4);
    wide[5] += 65536; // of Llama 3's vocabulary: the upper halves are 0 and 1
    assert_int_equal(detect("t.bin", wide, sizeof wide, TOKENS_U16, 128256), -1);
    refused("holds uint32 ids");
    assert_int_equal(detect("t.bin", widest, sizeof widest, TOKENS_U32, 50257), -1);
    refused("holds uint64 ids");
    assert_int_equal(detect("t.bin", widest, sizeof widest, TOKENS_AUTO, 50257), -1);
    refused("holds uint64 ids");
    assert_int_equal(detect("t.bin", "text", 4, TOKENS_U16, 50257), -1);
    refused("--data-format u16: ");
    assert_int_equal(detect("t", letters, 8, TOKENS_AUTO, 50257), -1);
    refused("t is UTF-16 without a mark, not a text: iconv -f UTF-16LE -t UTF-8 ");
    assert_int_equal(detect("t.bin", letters, 8, TOKENS_AUTO, 50257), -1);
    assert_int_equal(detect("t.bin", letters, 8, TOKENS_AUTO, 257), 2); // bytes are ids there
    assert_int_equal(detect("t", letters, 8, TOKENS_U16, 50257), 2);
}

/* Each format by the bytes that begin it, and what is said of it. */
static void test_formats(void **state)
{
#define B(text) text, sizeof text - 1
    static const struct { const char *name, *bytes; size_t n; const char *says; } files[] = {
        { "a.bz2", B("BZh91AY&SY\0"), "a bzip2 file, not a text: bzcat " },
        { "a.xz", B("\xFD""7zXZ\0\0"), "an xz file, not a text: xzcat " },
        { "a.zip", B("PK\3\4\0\0"), "a zip archive, not a text: unzip -p " },
        { "a.pt", B("PK\3\4\0\0archive/data.pkl"), "a PyTorch file, not a text" },
        { "b.pt", B("\x80\2\x8A\x0A\x6C\xFC"), "a PyTorch file, not a text" },
        { "a.pkl", B("\x80\4\x95\0\0"), "a Python pickle, not a text" },
        { "a.png", B("\x89PNG\r\n\x1A\n"), "a PNG picture, not a text" },
        { "a.jpg", B("\xFF\xD8\xFF\xE0"), "a JPEG picture, not a text" },
        { "a.pdf", B("%PDF-1.7\n"), "a PDF file, not a text: pdftotext " },
        // whose rows stay documents of their own, whatever the text's column is called
        { "a.parquet", B("PAR1\x15\0\x15"),
          ".to_json(orient='records', lines=True, force_ascii=False), end='')\" " },
        { "a.parquet", B("PAR1\x15\0\x15"), "a.jsonl makes rows of it" },
        { "a.parquet", B("PAR1\x15\0\x15"), "a Parquet file, not a text: python3 -c " },
        { "a.arrow", B("ARROW1\0\0"), "an Arrow (Feather) file, not a text: python3 -c " },
        { "b.arrow", B("\xFF\xFF\xFF\xFF\x10\0\0\0 0123456789abcdef"), "an Arrow stream" },
        { "a.gguf", B("GGUF\3\0\0\0"), "a GGUF model, not a text" },
        { "a.safetensors", B("\x09\0\0\0\0\0\0\0{\"a\":{} }"), "a safetensors file" },
        { "a.h5", B("\x89HDF\r\n\x1A\n"), "an HDF5 file" },
        { "a.db", B("SQLite format 3\0"), "an SQLite database" },
        { "a.npy", B("\x93NUMPY\1\0"), "a NumPy array, not a text: python3 -c " },
        { "a.txt", B("\xFF\xFEh\0i\0"), "a.txt is UTF-16, not a text: iconv -f UTF-16 -t UTF-8 " },
        { "a.txt", B("\xFE\xFF\0h\0i"), "UTF-16" },
        { "a.txt", B("\0h\0i\0 \0!"), "UTF-16 without a mark" },
        { "a.txt", B("\xFF\xFE\0\0h\0\0\0"), "UTF-32" },
        { "a.txt", B("caf\xE9 au lait\n"), "byte 3, in line 1, is 0xE9; if it is Latin-1: iconv -f "
                                           "LATIN1 -t UTF-8 " },
    };
    // rows, packed files, and texts that begin like something else
    static const struct { const char *bytes; size_t n; } texts[] = {
        { B("GGUF is a format of one file\n") }, { B("PAR1 and PAR2\n") },
        { B("BZh is not packed\n") },
        { B("{ curly } braces\n") }, { B("[1] a note\n") }, { B("[\"quoted\"] words\n") },
        { B("{\"quoted\"} words\n") }, { B("PK is a zip\n") },
        { B("{\"text\": \"a\"}\n") }, { B("\xEF\xBB\xBF [\n {\"a\": 1}]") },
        { B("[\"a\", \"b\"]") }, { B("\x1F\x8B\x08") }, { B("\x28\xB5\x2F\xFD") },
    };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_int_equal(detect(files[i].name, files[i].bytes, files[i].n, TOKENS_AUTO, 50257), -1);
        refused(files[i].says);
        assert_null(strchr(e.text, '\1'));
        assert_null(strchr(e.text, '\2'));
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (detect("a.txt", texts[i].bytes, texts[i].n, TOKENS_AUTO, 50257))
            fail_msg("%s", e.text);
    assert_int_equal(detect("a.jsonl", B("{\"text\": \"a\"}\n"), TOKENS_TEXT, 300), 0);
    assert_int_equal(detect("a.csv", B("text,label\na,1\n"), TOKENS_AUTO, 300), 0);
    assert_int_equal(detect("a.txt.gz", B("\x1F\x8B\x08\0"), TOKENS_TEXT, 300), 0);
    assert_int_equal(detect("a.txt.gz", B("\x1F\x8B\x08\0"), TOKENS_U16, 300), -1);
    refused("a gzip file");
}

/* More ids than llm.c's header can count: they are counted behind the mark. The file has a hole. */
static void test_many(void **state)
{
    const uint64_t       many = (uint64_t)INT32_MAX + 10;
    struct tokens_writer w;
    struct tokens       *t;
    int32_t              ids[3];
    uint32_t             head[8];

    (void)state;
    assert_int_equal(tokens_writer_open(&w, tempdir_at("many.bin"), 300, &e), 0);
    w.count = many;
    w.ids.off += 2 * many;
    assert_int_equal(tokens_writer_add(&w, (int32_t[]){ 7, 8 }, 2, &e), 0);
    assert_int_equal(tokens_writer_commit(&w, &e), 0);
    append_close(&w.ids);
    assert_int_equal(tokens_open(&t, tempdir_at("many.bin"), 2, &e), 0);
    assert_int_equal(t->count, many + 2);
    assert_int_equal(tokens_read(t, many - 1, 3, 300, ids, &e), 0);
    assert_memory_equal(ids, ((int32_t[]){ 0, 7, 8 }), sizeof ids);
    tokens_close(t);
    int fd = open(tempdir_at("many.bin"), O_RDWR);
    assert_int_equal(pread(fd, head, sizeof head, 0), sizeof head);
    assert_int_equal(head[2], UINT32_MAX);
    head[6]++; // the count's lower half
    assert_int_equal(pwrite(fd, head, sizeof head, 0), sizeof head);
    close(fd);
    assert_int_equal(tokens_open(&t, tempdir_at("many.bin"), 2, &e), -EINVAL);
    refused("but its header says 2147483660 tokens of uint16");
}

static void test_sums(void **state)
{
    struct tokens *t;
    uint32_t       sums[8];
    int32_t        id;
    int            fd;

    (void)state;
    write_ids("a.bin", 1300000);
    assert_int_equal(tokens_open(&t, tempdir_at("a.bin"), 2, &e), 0);
    assert_int_equal(tokens_sums(t), 3);
    assert_int_equal(tokens_hash(t, sums, NULL, &e), 0);
    tokens_close(t);
    fd = open(tempdir_at("a.bin"), O_WRONLY);
    assert_int_equal(pwrite(fd, "\xff", 1, (1 << 20) + 77), 1);
    close(fd);
    assert_int_equal(tokens_open(&t, tempdir_at("a.bin"), 2, &e), 0);
    assert_int_equal(tokens_expect(t, sums, 2, &e), -EINVAL);
    assert_int_equal(tokens_expect(t, sums, 3, &e), 0);
    assert_int_equal(tokens_read(t, 0, 1, 65536, &id, &e), 0);
    assert_int_equal(tokens_read(t, 600000, 1, 65536, &id, &e), -EINVAL);
    assert_non_null(strstr(e.text, "1048576"));
    assert_int_equal(tokens_read(t, 1200000, 1, 65536, &id, &e), 0);
    assert_int_equal(id, 1200000 & 65535);
    fd = open(tempdir_at("a.bin"), O_WRONLY); // also what was right when it was read before
    assert_int_equal(pwrite(fd, "\xff", 1, 77), 1);
    close(fd);
    assert_int_equal(tokens_read(t, 0, 1, 65536, &id, &e), -EINVAL);
    assert_int_equal(tokens_verify(t, 0, &e), -EINVAL);
    assert_int_equal(tokens_verify(t, 2, &e), 0);
    tokens_close(t);
}

static void test_json(void **state)
{
    json_t *v;
    char    deep[10000];

    (void)state;
    assert_int_equal(json_parse(&v, "{\"a\": [1, 2.5]}", 15, "text", &e), 0);
    assert_int_equal(json_write(v, tempdir_at("a.json"), JSON_INDENT(2), &e), 0);
    json_decref(v);
    assert_int_equal(json_read(&v, tempdir_at("a.json"), 1000, &e), 0);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(v, "a"), 0)), 1);
    json_decref(v);
    assert_int_equal(json_read(&v, tempdir_at("a.json"), 5, &e), -EINVAL);
    assert_int_equal(json_read(&v, tempdir_at("absent.json"), 5, &e), -ENOENT);
    tempdir_put("b.json", "{\n\"a\": 1,\n\"a\": 2}", 18);
    assert_int_equal(json_read(&v, tempdir_at("b.json"), 1000, &e), -EINVAL);
    assert_non_null(strstr(e.text, "line 3"));
    memset(deep, '[', sizeof deep);
    assert_int_equal(json_parse(&v, deep, sizeof deep, "deep", &e), -EINVAL);
    assert_int_equal(json_parse(&v, "", 0, "nothing", &e), -EINVAL);
    assert_null(v);
}

#define T(f) IN_TEMPDIR(f)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_round_trip), T(test_wide),       T(test_writer_leaves_nothing),
        T(test_new_file),   T(test_refusals),
        T(test_detect),     T(test_headerless), T(test_formats), T(test_sums),
        T(test_json),       T(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

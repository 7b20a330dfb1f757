/* file_kind.c: compares a file's bytes with a table of formats, and refuses formats that are not
 * wanted. Magic numbers have at least three bytes, except for the mark of UTF-16, because token ids
 * without a header begin with anything. Those that a text may begin with count only if no text
 * follows. */
#include "data/file/file_kind.h"

#include "data/file/file.h"
#include "data/base/machine.h"
#include "data/base/round.h"
#include "data/base/text_line.h"
#include "data/base/utf8.h"

#include <ctype.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_BYTES ((size_t)FILE_HEAD_BYTES)
#define MIB        ((size_t)1 << 20)

/* ---- the formats ---- */

/* Commands that convert such a file to a text, or to rows. \1 stands for the file, \2 for the new
 * one; NULL: there is none. lines: to rows of JSON, which may contain lists, and which stay
 * documents of their own in a text (NULL: as the others). to: ending of the new file's name.
 * makes: what it is (NULL: what is wanted). */
struct file_format {
    const char *magic;
    size_t      n, at; // bytes of it, and its offset
    const char *name, *text, *rows, *lines, *to, *makes;
};

#define MAGIC(bytes)  bytes, sizeof bytes - 1, 0
#define UNPACK(tool)  .text = tool " \1 >\2", .rows = tool " \1 >\2", .to = unpacked
#define PYTHON(lines) "python3 -c \"import sys, " lines "\" \1 >\2"
#define COLUMN(table) PYTHON("pandas; print(*pandas." table "['text'], sep='\\n')")
#define ROWS(table)   PYTHON("pandas; print(pandas." table ".to_csv(index=False), end='')")
#define LINES(table)                                                                               \
    PYTHON("pandas; print(pandas." table ".to_json(orient='records', lines=True, "                 \
           "force_ascii=False), end='')")
#define PANDAS(table) .text = COLUMN(table), .rows = ROWS(table), .lines = LINES(table)
#define ICONV(from)                                                                                \
    .text = "iconv -f " from " -t UTF-8 \1 >\2", .rows = "iconv -f " from " -t UTF-8 \1 >\2",      \
    .to = recoded
#define NOT_READ      .text = NULL

static const char unpacked[] = "", recoded[] = ".utf8";

static const struct file_format formats[] = {
    { MAGIC("\x1F\x8B\x08"), "a gzip file", UNPACK("zcat") },
    { MAGIC("\x28\xB5\x2F\xFD"), "a zstd file", UNPACK("zstdcat") },
    { MAGIC("\x50\x2A\x4D\x18"), "a zstd file", UNPACK("zstdcat") }, // pzstd's
    { "1AY&SY", 6, 4, "a bzip2 file", UNPACK("bzcat") },
    { MAGIC("\xFD""7zXZ\0"), "an xz file", UNPACK("xzcat") },
    { MAGIC("\x04\x22\x4D\x18"), "an lz4 file", UNPACK("lz4cat") },
    { MAGIC("PK\3\4"), "a zip archive", UNPACK("unzip -p") },
    { MAGIC("7z\xBC\xAF\x27\x1C"), "a 7-Zip archive", UNPACK("7z x -so") },
    { "ustar", 5, 257, "a tar archive", UNPACK("tar -xOf") },
    { MAGIC("\x89PNG\r\n\x1A\n"), "a PNG picture", NOT_READ },
    { MAGIC("\xFF\xD8\xFF"), "a JPEG picture", NOT_READ },
    { MAGIC("%PDF-"), "a PDF file", .text = "pdftotext \1 \2" },
    { MAGIC("PAR1"), "a Parquet file", PANDAS("read_parquet(sys.argv[1])") },
    { MAGIC("ARROW1\0\0"), "an Arrow (Feather) file", PANDAS("read_feather(sys.argv[1])") },
    { MAGIC("FEA1"), "a Feather file", PANDAS("read_feather(sys.argv[1])") },
    { MAGIC("GGUF"), "a GGUF model", NOT_READ },
    { MAGIC("\x89HDF\r\n\x1A\n"), "an HDF5 file", NOT_READ },
    { MAGIC("SQLite format 3\0"), "an SQLite database", NOT_READ },
    { MAGIC("MMIDIDX\0"), "an index of Megatron's, whose ids are in the .bin of its name",
      NOT_READ },
    { MAGIC("\x7F""ELF"), "a program", NOT_READ },
    { MAGIC("\x93NUMPY"), "a NumPy array",
      .text = "python3 -c \"import sys, numpy; numpy.load(sys.argv[1]).astype('<u4')"
              ".tofile(sys.argv[2])\" \1 \2",
      .to = ".bin", .makes = "makes ids of it, which --data-format u32 reads" },
    { MAGIC("\xFF\xFE\0\0"), "UTF-32", ICONV("UTF-32") },
    { MAGIC("\0\0\xFE\xFF"), "UTF-32", ICONV("UTF-32") },
    { MAGIC("\xFF\xFE"), "UTF-16", ICONV("UTF-16") },
    { MAGIC("\xFE\xFF"), "UTF-16", ICONV("UTF-16") },
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* Formats that are recognised by more than a magic number. */
static const struct file_format
    torch = { .name = "a PyTorch file" },
    pickled = { .name = "a Python pickle" },
    safetensors = { .name = "a safetensors file, which holds a model" },
    arrow_stream = {
        .name = "an Arrow stream, as datasets keeps it",
        .text = PYTHON("datasets; "
                       "print(*datasets.Dataset.from_file(sys.argv[1])['text'], sep='\\n')"),
        .rows = "python3 -c \"import sys, datasets; "
                "datasets.Dataset.from_file(sys.argv[1]).to_csv(sys.argv[2])\" \1 \2",
        .lines = "python3 -c \"import sys, datasets; datasets.Dataset.from_file(sys.argv[1])"
                ".to_json(sys.argv[2], force_ascii=False)\" \1 \2" },
    utf16_le = { .name = "UTF-16 without a mark", ICONV("UTF-16LE") },
    utf16_be = { .name = "UTF-16 without a mark", ICONV("UTF-16BE") },
    latin1 = { .name = "Latin-1", ICONV("LATIN1") },
    json_objects = { .name = "JSON", NOT_READ }, // as something else than rows
    json_list = { .name = "a JSON list", NOT_READ };

/* ---- formats by their first bytes ---- */

static const char *json_string_end(const char *p, const char *end)
{
    if (p == end || *p++ != '"')
        return NULL;
    for (; p < end && *p != '"'; p++)
        if ((unsigned char)*p < ' ' || (*p == '\\' && ++p == end))
            return NULL;
    return p < end ? p + 1 : NULL;
}

static int json_object_begins(const char *p, const char *end)
{
    if (p == end || *p != '{')
        return 0;
    p = json_string_end(text_past_blanks(p + 1, end), end);
    p = p ? text_past_blanks(p, end) : end;
    return p < end && *p == ':';
}

/* The format of a text that begins with a JSON object, or a list of objects or strings. Otherwise
 * NULL. */
static const struct file_format *json_format(const char *p, size_t n)
{
    const char *end = p + n;

    p = text_past_blanks(p + utf8_mark(p, n), end);
    if (json_object_begins(p, end))
        return &json_objects;
    if (p == end || *p != '[')
        return NULL;
    p = text_past_blanks(p + 1, end);
    if (json_object_begins(p, end))
        return &json_list;
    p = json_string_end(p, end);
    p = p ? text_past_blanks(p, end) : end;
    if (p == end || (*p != ',' && *p != ']'))
        return NULL;
    const char *next = text_past_blanks(p + 1, end); // another string, or nothing behind the list
    return *p == ']' ? (next == end ? &json_list : NULL)
                     : (json_string_end(next, end) ? &json_list : NULL);
}

static int is_control(unsigned char c) { return c < ' ' && !isspace(c); }

/* Whether every other byte is zero and no others are, without control characters. */
static const struct file_format *utf16_format(const unsigned char *p, size_t n)
{
    size_t pairs = n / 2, zeros[2] = { 0 };

    for (size_t i = 0; i < 2 * pairs; i++) {
        zeros[i & 1] += !p[i];
        if (p[i] && is_control(p[i]))
            return NULL;
    }
    for (int at = 0; at < 2; at++)
        if (pairs > 1 && zeros[at] * 10 >= pairs * 9 && !zeros[!at])
            return at ? &utf16_le : &utf16_be;
    return NULL;
}

static uint64_t little_endian(const unsigned char *p, size_t n)
{
    uint64_t value = 0;

    memcpy(&value, p, n);
    return value;
}

/* Whether this looks like text: hardly any control characters, and no NUL. */
static int looks_like_words(const unsigned char *p, size_t n)
{
    size_t controls = 0;

    for (size_t i = 0; i < n; i++) {
        if (!p[i])
            return 0;
        controls += (size_t)is_control(p[i]);
    }
    return controls * 50 <= n;
}

/* Whether the magic number is a word, with which a text may begin, like one about GGUF. */
static int is_word(const struct file_format *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (!isalnum((unsigned char)f->magic[i]))
            return 0;
    return 1;
}

/* Formats without a magic number of their own. */
static const struct file_format *format_of_parts(const unsigned char *p, size_t n, uint64_t size)
{
    if (n > 9 && p[8] == '{' && little_endian(p, 8) > 1 && little_endian(p, 8) <= size - 8 &&
        (p[9] == '"' || p[9] == '}' || p[9] == ' '))
        return &safetensors;
    if (n > 2 && p[0] == 0x80 && p[1] >= 2 && p[1] <= 5 && strchr("\x95}]c(\x8A", p[2]) && p[2])
        return n > 4 && !memcmp(p + 2, "\x8A\x0A\x6C", 3) ? &torch : &pickled;
    if (n >= 8 && little_endian(p, 4) == UINT32_MAX && little_endian(p + 4, 4) % 8 == 0 &&
        little_endian(p + 4, 4) - 8 < MIB && little_endian(p + 4, 4) < size)
        return &arrow_stream;
    return NULL;
}

/* Finds the format of a file of `size` bytes from its first n bytes, if it is neither text nor
 * bytes. */
static int head_look(struct file_look *out, const unsigned char *p, size_t n, uint64_t size)
{
    int32_t magic = n >= 4 ? (int32_t)little_endian(p, 4) : 0;

    *out = (struct file_look){ .kind = FILE_FORMAT, .line = 1 };
    if (!size || magic == LLMC_MAGIC_U16 || magic == LLMC_MAGIC_U32) {
        out->kind = size ? FILE_TOKENS : FILE_EMPTY;
        out->width = magic == LLMC_MAGIC_U32 ? 4 : 2;
        return 1;
    }
    for (const struct file_format *f = formats; f < formats + FORMATS && !out->format; f++)
        if (n >= f->at + f->n && !memcmp(p + f->at, f->magic, f->n) &&
            !(is_word(f) && looks_like_words(p, n)))
            out->format = f;
    if (out->format && !memcmp(p, "PK", 2) && memmem(p, n, "/data.pkl", 9))
        out->format = &torch;
    if (!out->format)
        out->format = format_of_parts(p, n, size);
    if (!out->format)
        out->guessed = (out->format = utf16_format(p, n)) != NULL;
    return out->format != NULL;
}

/* ---- texts ---- */

static int count_lines(struct file_look *out, int fd, const char *path, char *buf, struct err *err)
{
    int rc = 0;

    for (uint64_t off = 0, n; off < out->at && !rc; off += n) {
        n = size_min(out->at - off, MIB);
        rc = file_pread(fd, buf, n, off, path, err);
        for (const char *p = buf; !rc && (p = memchr(p, '\n', (size_t)(buf + n - p))); p++)
            out->line++;
    }
    return rc;
}

/* Checks that the whole file is text. Otherwise *out has the first byte that is not. */
static int whole_look(struct file_look *out, int fd, uint64_t size, const char *path, char *buf,
                      const struct watch *watch, struct err *err)
{
    size_t carry = 0, used = 0, have = 0; // used: all except a last code point that is cut off
    int    rc = 0, why;

    for (uint64_t off = 0; off < size;) {
        size_t n = size_min(size - off, MIB - carry);

        if ((rc = file_pread(fd, buf + carry, n, off, path, err)))
            return rc;
        have = carry + n;
        used = utf8_valid(buf, have, &why);
        const char *zero = memchr(buf, 0, used);
        if (zero || why < 0 || (off + n == size && used < have)) {
            used = zero ? (size_t)(zero - buf) : used;
            out->kind = FILE_BYTES;
            out->at = off - carry + used;
            out->byte = (unsigned char)buf[used];
            return count_lines(out, fd, path, buf, err);
        }
        off += n;
        carry = have - used;
        memmove(buf, buf + used, carry);
        if ((rc = watch_look(watch, off, size, err)))
            return rc;
    }
    return 0;
}

/* gzip and zstd are the first three of the formats. */
int file_kind_is_packed(const struct file_look *look)
{
    return look->kind == FILE_FORMAT && look->format >= formats && look->format < formats + 3;
}

void file_kind_head(struct file_look *out, const char *bytes, size_t n, uint64_t size)
{
    n = size_min(n, HEAD_BYTES);
    if (head_look(out, (const unsigned char *)bytes, n, n ? size : 0))
        return;
    out->format = json_format(bytes, n);
    out->kind = out->format ? FILE_JSON : FILE_TEXT;
    out->words = looks_like_words((const unsigned char *)bytes, n);
}

int file_kind_begins(struct file_look *out, char head[FILE_HEAD_BYTES], size_t *n,
                     const char *path, struct err *err)
{
    uint64_t size;
    int      fd, rc = file_open_read(path, &fd, &size, err);

    if (rc)
        return rc;
    *n = size_min(size, FILE_HEAD_BYTES);
    rc = file_pread(fd, head, *n, 0, path, err);
    close(fd);
    if (!rc)
        file_kind_head(out, head, *n, size);
    return rc;
}

int file_kind_look(struct file_look *out, const char *path, const struct watch *watch,
                   struct err *err)
{
    char    *buf = malloc(MIB);
    uint64_t size;
    int      fd = -1, rc = buf ? file_open_read(path, &fd, &size, err)
                               : err_set(err, -ENOMEM, "no memory to look at %s", path);
    size_t   n = rc ? 0 : size_min(size, HEAD_BYTES);

    rc = rc ? rc : file_pread(fd, buf, n, 0, path, err);
    if (!rc)
        file_kind_head(out, buf, n, size);
    if (!rc && (out->kind == FILE_TEXT || out->kind == FILE_JSON))
        rc = whole_look(out, fd, size, path, buf, watch, err);
    file_close(fd);
    free(buf);
    return rc;
}

/* ---- refusals ---- */

/* lines: rows of JSON are read, too, and keep what a text of all of them would lose. */
static const struct { const char *not, *makes, *end; int lines; } wants[] = {
    [FILE_FOR_DATA] = { "not a text", "makes one", ".txt", 1 },
    [FILE_FOR_TEXT] = { "not a text", "makes one", ".txt", 1 },
    [FILE_FOR_PROMPTS] = { "not a text of a prompt a line", "makes a text of it", ".txt", 0 },
    [FILE_FOR_ROWS] = { "not rows", "makes rows of it", ".csv", 0 },
    [FILE_FOR_CHAT] = { "not rows of conversations", "makes rows of it", ".jsonl", 1 },
    [FILE_FOR_OPTIONS] = { "not a text of options", NULL, "", 0 },
    [FILE_FOR_JSON] = { "not JSON", NULL, "", 0 },
    [FILE_FOR_TOKENIZER] = { "not the folder of a tokenizer", NULL, "", 0 },
    [FILE_FOR_TEMPLATE] = { "not a chat template", NULL, "", 0 },
};

/* The name of a converted file. A packed file loses its last ending. A recoded one gets .utf8
 * before its own ending. Others get the ending of what is wanted. */
static void name_made(char *out, size_t size, const char *path, const struct file_format *f,
                      const char *end)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    int         stem = (int)(dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path)
                                                                     : strlen(path));
    const char *own = path + stem;

    if (f->to == unpacked)
        snprintf(out, size, "%.*s%s", stem, path, memchr(path, '.', (size_t)stem) ? "" : end);
    else if (f->to == recoded)
        snprintf(out, size, "%.*s%s%s", stem, path, recoded, *own ? own : end);
    else
        snprintf(out, size, "%.*s%s", stem, path, f->to ? f->to : end);
    if (!strcmp(out, path))
        snprintf(out, size, "%s%s", path, f->to && *f->to ? f->to : end);
}

static int gives_lines(const struct file_format *f, enum file_want want)
{
    return wants[want].lines && f->lines;
}

static void write_command(char *out, size_t size, const char *path, const struct file_format *f,
                          enum file_want want)
{
    const char *from = gives_lines(f, want)                             ? f->lines
                       : want == FILE_FOR_ROWS || want == FILE_FOR_CHAT ? f->rows
                       : wants[want].makes                              ? f->text
                                                                        : NULL;
    char        made[400], names[2][408];
    size_t      n = 0, length = strlen(path);

    *out = '\0';
    for (const char *p = path; *p; p++)
        length += *p == '\'' ? 3 : 0; // as a shell quotes it
    if (!from || length > 250) // a message has room for three of them
        return;
    name_made(made, sizeof made, path, f, gives_lines(f, want) ? ".jsonl" : wants[want].end);
    machine_word(names[0], sizeof names[0], path);
    machine_word(names[1], sizeof names[1], made);
    for (; *from && n + sizeof names[0] < size; from++)
        n += *from <= 2 ? (size_t)snprintf(out + n, size - n, "%s", names[*from - 1])
                        : (size_t)snprintf(out + n, size - n, "%c", *from);
}

void file_kind_recode(char *out, size_t size, const char *path)
{
    write_command(out, size, path ? path : "", &latin1, FILE_FOR_ROWS);
    if (!path || !*out)
        snprintf(out, size, "iconv -f LATIN1 -t UTF-8");
}

/* Refuses a file, and says where its first byte is that no text has. */
static int refuse_bytes(const struct file_look *look, const char *path, enum file_want want,
                        struct err *err)
{
    static const char ids[] = "; token ids without a header are read where the name ends in .bin, "
                              "or with --data-format u16 or u32";
    char command[900], place[80];

    snprintf(place, sizeof place, "byte %" PRIu64 ", in line %" PRIu64 ", is 0x%02X", look->at,
             look->line, look->byte);
    write_command(command, sizeof command, path, &latin1, want);
    if (look->words && look->byte && *command)
        return err_misuse(err, "%s is not UTF-8: %s; if it is Latin-1: %s %s", path, place, command,
                          wants[want].makes);
    return err_misuse(err, "%s is %s: %s%s%s", path, wants[want].not, place,
                      look->byte ? ", and it is of no format that is known here" : " (NUL)",
                      want == FILE_FOR_DATA ? ids : "");
}

int file_kind_refuse(const struct file_look *look, const char *path, enum file_want want,
                     struct err *err)
{
    const struct file_format *f = look->format;
    char                      command[900];

    if (look->kind == FILE_BYTES)
        return refuse_bytes(look, path, want, err);
    if (!f)
        return err_misuse(err, "%s is %s, %s", path,
                          look->kind == FILE_EMPTY    ? "empty"
                          : look->kind == FILE_TOKENS ? "a file of token ids (llm.c's)"
                                                      : "a text",
                          wants[want].not);
    write_command(command, sizeof command, path, f, want);
    if (!*command)
        return err_misuse(err, "%s is %s, %s", path, f->name, wants[want].not);
    return err_misuse(err, "%s is %s, %s: %s %s", path, f->name, wants[want].not, command,
                      f->makes                ? f->makes
                      : gives_lines(f, want) ? wants[FILE_FOR_CHAT].makes
                                              : wants[want].makes);
}

int file_kind_refuse_packed(const struct file_look *look, const char *path, const char *format,
                            enum file_want want, struct err *err)
{
    const struct file_format *f = &formats[!strcmp(format, "zstd")];
    char                      inner[400], words[2][408];
    struct err                why;

    if (look->kind == FILE_EMPTY)
        return err_misuse(err, "%s is %s with nothing in it, %s", path, f->name, wants[want].not);
    if (strlen(path) > 110) // a message has room for six of them
        return err_misuse(err, "%s is %s, which is unpacked, but what is in it is %s, %s", path,
                          f->name, look->format ? look->format->name : "something else",
                          wants[want].not);
    name_made(inner, sizeof inner, path, f, ".unpacked");
    file_kind_refuse(look, inner, want, &why);
    machine_word(words[0], sizeof words[0], path);
    machine_word(words[1], sizeof words[1], inner);
    return err_misuse(err, "%s is %s, which is unpacked, but %s. First: %s %s >%s", path, f->name,
                      why.text, f == formats ? "zcat" : "zstdcat", words[0], words[1]);
}

int file_kind_check_bytes(const char *bytes, size_t n, const char *path, enum file_want want,
                          struct err *err)
{
    struct file_look look;
    size_t           head = size_min(n, HEAD_BYTES);

    if (!n || !head_look(&look, (const unsigned char *)bytes, head, n))
        return 0;
    return file_kind_refuse(&look, path, want, err);
}

int file_kind_expect_folder(const char *path, enum file_want want, struct err *err)
{
    struct file_look look;
    struct stat      st;

    if (stat(path, &st) || S_ISDIR(st.st_mode))
        return 0;
    int rc = file_kind_look(&look, path, NULL, err);
    return rc ? rc : file_kind_refuse(&look, path, want, err);
}

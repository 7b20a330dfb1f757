/* chat_folder.c: makes a list of paths from names that may be folders. */
#include "run/sources/chat_folder.h"

#include <stdlib.h>

int chat_folder_open(struct text_list *list, struct opt_strings *names,
                     const struct opt_strings *given, struct err *err)
{
    static const char *const none[TEXT_WRITTEN];
    int                      rc = text_list_make(list, given->item, given->n, none, err);

    *names = (struct opt_strings){ rc ? NULL : calloc(list->n + 1, sizeof *names->item), 0 };
    if (!rc && !names->item)
        rc = err_set(err, -ENOMEM, "out of memory for the names of files");
    for (size_t i = 0; i < list->n && !rc; i++)
        names->item[names->n++] = list->file[i].path;
    return rc;
}

void chat_folder_close(struct text_list *list, struct opt_strings *names)
{
    text_list_free(list);
    free(names->item);
}

/* chat_folder.h: the files of conversations that names stand for. A folder stands for all files
 * below it, in byte order of their paths. */
#pragma once

#include "data/opt/opt_row.h"
#include "run/sources/text_list.h"

/* Finds the files. *names borrows from *list; close both after use, also after an error. Misuse: a
 * name that leads to nothing, a folder without files. */
int  chat_folder_open(struct text_list *list, struct opt_strings *names,
                      const struct opt_strings *given, struct err *err);
void chat_folder_close(struct text_list *list, struct opt_strings *names);

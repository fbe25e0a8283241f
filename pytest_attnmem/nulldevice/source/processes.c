/* Tells the program that started this process that it uses a device: its peaks may never come. */
#include "null.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void null_used(void)
{
    const char *folder = getenv("ATTNMEM_NULL_PROCESSES");
    char path[4096];
    if (!folder || (size_t)snprintf(path, sizeof path, "%s/%d", folder, (int)getpid()) >= sizeof path)
        return;
    int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0)
        close(file);
}

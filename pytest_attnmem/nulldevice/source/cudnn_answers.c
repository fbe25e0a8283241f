/* The answers of cuDNN about plans, remembered in this process and in a file for later ones.
 *
 * The file belongs to one version of cuDNN, one device and the settings of cuDNN in the environment.
 * A line has a question, its answer and a checksum. A line that is damaged is passed over, so its
 * question is asked again and written again.
 */
#include "cudnn.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMAT 1      /* changes with the lines and with the keys of questions */
#define LONGEST 65536 /* characters of a line; a longer answer is remembered in this process alone */

struct entry {
    cudnn_key question;
    struct cudnn_answer answer;
};
static struct entry *entries; /* open addressing; an entry without a question is free */
static size_t room, used;
static int file = -1;
static bool loaded;

static struct entry *place_of(cudnn_key question)
{
    size_t at = (size_t)question & (room - 1);
    while (entries[at].question && entries[at].question != question)
        at = (at + 1) & (room - 1);
    return &entries[at];
}

static bool grow(void)
{
    struct entry *old = entries;
    size_t before = room;
    struct entry *larger = calloc(room ? 2 * room : 1024, sizeof *larger);
    if (!larger)
        return false;
    entries = larger;
    room = room ? 2 * room : 1024;
    for (size_t i = 0; i < before; i++)
        if (old[i].question)
            *place_of(old[i].question) = old[i];
    free(old);
    return true;
}

static void keep(cudnn_key question, const struct cudnn_answer *answer)
{
    void *bytes = malloc(answer->size ? answer->size : 1);
    if (!bytes || (2 * used >= room && !grow())) {
        free(bytes);
        return;
    }
    struct entry *entry = place_of(question);
    if (entry->question)
        free((void *)entry->answer.bytes);
    else
        used++;
    *entry = (struct entry){question, *answer};
    entry->answer.bytes = answer->size ? memcpy(bytes, answer->bytes, answer->size) : bytes;
}

static unsigned checksum(const char *text, size_t size)
{
    cudnn_key key = cudnn_key_add(cudnn_key_start(), text, size);
    return (unsigned)(key ^ key >> 64);
}

/* Reads "question status found bytes checksum", of which only the bytes may be empty ("-"). */
static void read_line(char *line)
{
    unsigned long long high, low;
    unsigned sum;
    int status, sum_at = 0, bytes_at = 0;
    long long found;
    struct cudnn_answer answer = {0};
    char *last = strrchr(line, ' ');
    if (!last || sscanf(last, " %8x%n", &sum, &sum_at) != 1 || last[sum_at] || sum_at != 9)
        return;
    if (sum != checksum(line, (size_t)(last - line)))
        return;
    if (sscanf(line, "%16llx%16llx %d %lld %n", &high, &low, &status, &found, &bytes_at) != 4 || !bytes_at)
        return;
    char *bytes = line + bytes_at;
    answer.size = (size_t)(last - bytes) / 2; /* 0 for "-" */
    for (size_t i = 0; i < answer.size; i++) {
        unsigned byte = 0;
        sscanf(bytes + 2 * i, "%2x", &byte);
        bytes[i] = (char)byte;
    }
    answer.status = status;
    answer.found = found;
    answer.bytes = bytes;
    keep((cudnn_key)high << 64 | low, &answer);
}

/* Returns what plans depend on: the device, and variables that change cuDNN's choice of a plan. */
static unsigned circumstances(void)
{
    const char *device = cudnn_device_json();
    cudnn_key key = cudnn_key_add(cudnn_key_start(), device, strlen(device));
    for (char **variable = environ; *variable; variable++) {
        bool log = !strncmp(*variable, "CUDNN_LOG", 9) || !strncmp(*variable, "CUDNN_FRONTEND", 14);
        if (!log && (!strncmp(*variable, "CUDNN_", 6) || !strncmp(*variable, "NVIDIA_TF32", 11)))
            key = cudnn_key_add(key, *variable, strlen(*variable) + 1);
    }
    return (unsigned)(key ^ key >> 64);
}

static void load(void)
{
    char path[4096];
    const char *folder = getenv("ATTNMEM_NULL_PLANS");
    loaded = true;
    if (!grow() || !folder || !*folder)
        return;
    int size = snprintf(path, sizeof path, "%s/cudnn-%zu-%08x-%d.txt", folder, cudnn_library()->version(),
                        circumstances(), FORMAT);
    if (size < 0 || (size_t)size >= sizeof path)
        return;
    file = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    FILE *lines = file < 0 ? NULL : fopen(path, "re");
    char *line = NULL;
    size_t length = 0;
    while (lines && getline(&line, &length, lines) > 0) {
        line[strcspn(line, "\n")] = '\0';
        read_line(line);
    }
    free(line);
    if (lines)
        fclose(lines);
}

/* One write for a line, so that lines of several processes do not mix. A line begins with its end of
 * line, so that it is whole even if another process was killed while it wrote. */
static void append(cudnn_key question, const struct cudnn_answer *answer)
{
    static char line[LONGEST];
    size_t at = (size_t)snprintf(line, sizeof line, "\n%016llx%016llx %d %lld ",
                                 (unsigned long long)(question >> 64), (unsigned long long)question,
                                 answer->status, (long long)answer->found);
    if (at + 2 * answer->size + 16 > sizeof line)
        return;
    for (size_t i = 0; i < answer->size; i++)
        at += (size_t)sprintf(line + at, "%02x", ((const unsigned char *)answer->bytes)[i]);
    if (!answer->size)
        line[at++] = '-';
    at += (size_t)sprintf(line + at, " %08x", checksum(line + 1, at - 1));
    if (write(file, line, at) < 0) {
        close(file); /* the disk is full, most likely: the next process asks again */
        file = -1;
    }
}

bool cudnn_recall(cudnn_key question, struct cudnn_answer *answer)
{
    if (!loaded)
        load();
    struct entry *entry = room ? place_of(question) : NULL;
    if (!entry || !entry->question)
        return false;
    *answer = entry->answer;
    return true;
}

void cudnn_remember(cudnn_key question, const struct cudnn_answer *answer)
{
    bool lasting = answer->status == SUCCESS || (answer->status >= 2000 && answer->status < 4000);
    keep(question, answer);
    if (lasting && file >= 0)
        append(question, answer);
}

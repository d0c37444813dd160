/* temp_dir.c: folders for tests. */
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/temp_dir.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/mem.h"

void temp_dir_make(char ret_path[TEMP_PATH_ROOM])
{
    const char *top = getenv("TMPDIR");
    snprintf(ret_path, TEMP_PATH_ROOM, "%s/foldkv-test-XXXXXX", top != NULL ? top : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(ret_path));
}

static void remove_at(const char *path, int depth)
{
    char name[TEMP_PATH_ROOM + 300];
    DIR *entries = opendir(path);
    if (entries == NULL)
        return;
    for (struct dirent *e; (e = readdir(entries)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (unlink(name) != 0 && depth > 0)
            remove_at(name, depth - 1);
    }
    closedir(entries);
    rmdir(path);
}

void temp_dir_remove(const char *path)
{
    remove_at(path, 1);
}

void temp_dir_write(const char *path, const char *name, const void *bytes, size_t len)
{
    char full[TEMP_PATH_ROOM + 300];
    snprintf(full, sizeof full, "%s/%s", path, name);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    close(fd);
}

void temp_dir_hash(const char *path, const char *name, char ret_hex[SHA256_HEX])
{
    char full[TEMP_PATH_ROOM + 300];
    struct stat about;
    uint8_t hash[SHA256_BYTES];
    snprintf(full, sizeof full, "%s/%s", path, name);
    int fd = open(full, O_RDONLY);
    ret_hex[0] = '\0';
    if (fd < 0)
        return;
    ck_assert_int_eq(fstat(fd, &about), 0);
    char *bytes = mem_alloc((size_t)about.st_size + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_int_eq(read(fd, bytes, (size_t)about.st_size), about.st_size);
    ck_assert_int_eq(sha256_of(bytes, (size_t)about.st_size, hash), OK);
    sha256_hex(hash, ret_hex);
    mem_free(bytes);
    close(fd);
}

int temp_dir_count(const char *path)
{
    int n = -2;
    DIR *entries = opendir(path);
    ck_assert_ptr_nonnull(entries);
    while (readdir(entries) != NULL)
        n++;
    closedir(entries);
    return n;
}

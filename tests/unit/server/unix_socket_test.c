/* unix_socket_test.c: a stale socket is replaced, a live one is left alone, no file but ours is removed, and the mode holds. */
// SPDX-License-Identifier: Apache-2.0
#include "server/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/suite_run.h"

static struct sockaddr_un address;
static char dir[32];

static void begin(void)
{
    snprintf(dir, sizeof dir, "/tmp/foldkv-socket-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", dir);
}

static void end(void)
{
    unlink(address.sun_path);
    rmdir(dir);
}

static enum status bind_it(struct unix_socket *socket, int *fd, struct why *why)
{
    return unix_socket_bind(&address, 0177, "admin.listen", socket, fd, why);
}

START_TEST(the_file_is_its_owners_alone)
{
    struct unix_socket socket;
    struct stat file;
    int fd;
    mode_t before = umask(0);
    ck_assert_int_eq(bind_it(&socket, &fd, NULL), OK);
    ck_assert_uint_eq(umask(before), 0);
    ck_assert_int_eq(lstat(address.sun_path, &file), 0);
    ck_assert_uint_eq(file.st_mode & 0777, 0600);
    unix_socket_remove(&socket);
    ck_assert_int_ne(lstat(address.sun_path, &file), 0);
    close(fd);
}
END_TEST

START_TEST(a_live_one_is_refused)
{
    struct unix_socket first, second;
    struct why why = {0};
    int fd, none;
    ck_assert_int_eq(bind_it(&first, &fd, NULL), OK);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(bind_it(&second, &none, &why), STATUS_IO);
    ck_assert_str_eq(why.field, "admin.listen");
    ck_assert_ptr_nonnull(strstr(why.text, "another process listens there"));
    ck_assert_int_eq(none, -1);
    ck_assert_str_eq(second.path, "");
    unix_socket_remove(&second); /* removes nothing */
    ck_assert_int_eq(access(address.sun_path, F_OK), 0);
    unix_socket_remove(&first);
    close(fd);
}
END_TEST

START_TEST(a_stale_one_is_replaced)
{
    struct unix_socket first, second;
    int fd;
    ck_assert_int_eq(bind_it(&first, &fd, NULL), OK);
    ck_assert_int_eq(listen(fd, 1), 0);
    close(fd); /* killed: the file stays */
    ck_assert_int_eq(access(address.sun_path, F_OK), 0);
    ck_assert_int_eq(bind_it(&second, &fd, NULL), OK);
    unix_socket_remove(
        &first); /* the file is another's by now, unless the system gave the number out again */
    if (first.inode != second.inode)
        ck_assert_int_eq(access(address.sun_path, F_OK), 0);
    unix_socket_remove(&second);
    close(fd);
}
END_TEST

START_TEST(another_file_is_left_alone)
{
    struct unix_socket socket;
    struct why why = {0};
    int none, fd = open(address.sun_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind_it(&socket, &none, &why), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(why.text, "no socket"));
    ck_assert_int_eq(access(address.sun_path, F_OK), 0);
    close(fd);
    unlink(address.sun_path);
    ck_assert_int_eq(rmdir(dir), 0);
    ck_assert_int_eq(bind_it(&socket, &none, &why), STATUS_IO); /* no folder */
    ck_assert_int_eq(mkdir(dir, 0700), 0);
}
END_TEST

START_TEST(tells_the_peer)
{
    struct unix_socket socket_file;
    uid_t uid = (uid_t)-1;
    int fd, client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind_it(&socket_file, &fd, NULL), OK);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    int inside = accept(fd, NULL, NULL);
    ck_assert(unix_socket_peer(inside, &uid));
    ck_assert_uint_eq(uid, getuid());
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert(!unix_socket_peer(ends[0], &uid));
    close(ends[0]);
    close(ends[1]);
    unix_socket_remove(&socket_file);
    close(inside);
    close(client);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unix_socket");
    TCase *tcase = tcase_create("unix_socket");
    tcase_set_timeout(tcase, 10);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, the_file_is_its_owners_alone);
    tcase_add_test(tcase, a_live_one_is_refused);
    tcase_add_test(tcase, a_stale_one_is_replaced);
    tcase_add_test(tcase, another_file_is_left_alone);
    tcase_add_test(tcase, tells_the_peer);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

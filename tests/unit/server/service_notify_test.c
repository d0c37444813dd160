/* service_notify_test.c: the datagram arrives where NOTIFY_SOCKET says; without one nothing happens. */
// SPDX-License-Identifier: Apache-2.0
#include "server/service_notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/suite_run.h"

START_TEST(tells_the_manager)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "foldkv-notify-test-%d",
                     (int)getpid());
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    ck_assert_int_ge(fd, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    char name[sizeof address.sun_path + 1], text[64] = "";
    snprintf(name, sizeof name, "@%s", address.sun_path + 1);
    setenv("NOTIFY_SOCKET", name, 1);
    ck_assert(service_notify("READY=1"));
    ck_assert_int_eq(recv(fd, text, sizeof text - 1, MSG_DONTWAIT), 7);
    ck_assert_str_eq(text, "READY=1");
    close(fd);
    ck_assert(!service_notify("READY=1")); /* nobody there */
}
END_TEST

START_TEST(nobody_asks)
{
    unsetenv("NOTIFY_SOCKET");
    ck_assert(service_notify("READY=1"));
    setenv("NOTIFY_SOCKET", "not-a-path", 1);
    ck_assert(!service_notify("READY=1"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("service_notify");
    TCase *tcase = tcase_create("service_notify");
    tcase_set_timeout(tcase, 10);
    tcase_add_test(tcase, tells_the_manager);
    tcase_add_test(tcase, nobody_asks);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}

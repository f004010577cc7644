/* At most 5 requests per 10 seconds from one address. Needs hiredis.
 *
 *     cc -o limited limited.c -lhiredis
 *     ./limited          # then: curl -i http://127.0.0.1:8080/
 *
 * RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens
 * when the limit cannot be checked: OPEN serves the request, CLOSED refuses it. rlproxy
 * applies it when its Redis is away; this program does when rlproxy is.
 * RateLimit and RateLimit-Policy are those of draft-ietf-httpapi-ratelimit-headers-11. */
#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define LIMIT 5   /* requests */
#define WINDOW 10 /* seconds */

struct decision {
    long long allowed, limit, remaining, retry_after;
};

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static redisContext *dial(void) {
    char host[256];
    int port = 6380;
    struct timeval quarter = {0, 250000};
    if (sscanf(setting("RLPROXY", "127.0.0.1:6380"), "%255[^:]:%d", host, &port) != 2) return NULL;
    redisContext *rl = redisConnectWithTimeout(host, port, quarter);
    if (rl && !rl->err) redisSetTimeout(rl, quarter);
    return rl;
}

/* ask fills in d and returns 1, or returns 0 when the limit cannot be checked. */
static int ask(const char *address, const char *fail, struct decision *d) {
    static redisContext *rl;
    if (rl == NULL) rl = dial();
    if (rl == NULL) return 0;
    redisReply *r = rl->err ? NULL : redisCommand(rl, "RL.SLIDE ip:%s %d %d FAIL %s", address, LIMIT, WINDOW, fail);
    if (r == NULL) { /* the connection is lost: dial again the next time */
        redisFree(rl);
        rl = NULL;
        return 0;
    }
    int ok = r->type == REDIS_REPLY_ARRAY && r->elements == 5;
    if (ok) {
        redisReply **n = r->element;
        *d = (struct decision){n[0]->integer, n[1]->integer, n[2]->integer, n[3]->integer};
    }
    freeReplyObject(r);
    return ok;
}

static void respond(int client, const char *status, const char *headers, const char *text) {
    dprintf(client, "HTTP/1.1 %s\r\n%sConnection: close\r\nContent-Length: %zu\r\n\r\n%s", status, headers,
            strlen(text), text);
}

static void handle(int client, const char *address) {
    const char *fail = setting("FAIL", "OPEN");
    struct decision d;
    char headers[512], until[32] = "";
    int n;

    if (!ask(address, fail, &d)) {
        if (strcmp(fail, "OPEN") == 0) respond(client, "200 OK", "", "hello\n");
        else respond(client, "503 Service Unavailable", "", "try again later\n");
        return;
    }
    long long wait = (d.retry_after + 999) / 1000; /* seconds, when denied */
    if (!d.allowed) snprintf(until, sizeof until, ";t=%lld", wait);
    n = snprintf(headers, sizeof headers, "RateLimit-Policy: \"default\";q=%d;w=%d\r\n", LIMIT, WINDOW);
    if (d.remaining >= 0) /* -1: rlproxy could not ask its Redis */
        n += snprintf(headers + n, sizeof headers - n,
                      "RateLimit: \"default\";r=%lld%s\r\nX-RateLimit-Limit: %lld\r\nX-RateLimit-Remaining: %lld\r\n",
                      d.remaining, until, d.limit, d.remaining);
    if (d.allowed) {
        respond(client, "200 OK", headers, "hello\n");
        return;
    }
    snprintf(headers + n, sizeof headers - n, "Retry-After: %lld\r\nX-RateLimit-Reset: %lld\r\n", wait, wait);
    respond(client, "429 Too Many Requests", headers, "too many requests\n");
}

int main(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(setting("PORT", "8080")))};
    int on = 1, server = socket(AF_INET, SOCK_STREAM, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    signal(SIGPIPE, SIG_IGN); /* a client that left is an error of write, no more */
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(server, (struct sockaddr *)&at, sizeof at) || listen(server, 128)) {
        perror("listen");
        return 1;
    }
    for (;;) {
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        char request[4096];
        int client = accept(server, (struct sockaddr *)&from, &size);
        if (client < 0) continue;
        if (read(client, request, sizeof request) > 0) handle(client, inet_ntoa(from.sin_addr));
        close(client);
    }
}

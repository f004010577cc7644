/* hiredis: the bare protocol; AUTH by hand, append and get for pipelines. */
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_ERROR "ERR limit must be an integer between 1 and 1000000000000; it was '0'"

static const char *check; /* the one under way */
static int failed;

/* verdict prints one check's line; the check is named by the caller. */
static void verdict(int ok, const char *why) {
    if (ok) {
        printf("ok %s\n", check);
    } else {
        printf("FAIL %s %s\n", check, why ? why : "unexpected reply");
        failed = 1;
    }
    fflush(stdout);
}

/* field returns integer i of an array of five, or -2 when the reply is no such array. */
static long long field(const redisReply *r, size_t i) {
    if (r == NULL || r->type != REDIS_REPLY_ARRAY || r->elements != 5) return -2;
    return r->element[i]->type == REDIS_REPLY_INTEGER ? r->element[i]->integer : -2;
}

/* login gives the password if there is one. A refusal becomes the connection's error. */
static redisContext *login(redisContext *c, const char *password) {
    const char *user = getenv("RL_USERNAME");
    if (c == NULL || c->err || password == NULL) return c;
    redisReply *r = user ? redisCommand(c, "AUTH %s %s", user, password) : redisCommand(c, "AUTH %s", password);
    if (r == NULL || r->type == REDIS_REPLY_ERROR) {
        c->err = REDIS_ERR_OTHER;
        snprintf(c->errstr, sizeof c->errstr, "%s", r ? r->str : "no reply to AUTH");
    }
    freeReplyObject(r);
    return c;
}

static redisContext *dial(const char *password) {
    return login(redisConnect(getenv("RL_HOST"), atoi(getenv("RL_PORT"))), password);
}

/* first sends a command and returns the first integer of its reply. */
static long long first(redisContext *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *r = redisvCommand(c, format, args);
    va_end(args);
    long long n = field(r, 0);
    freeReplyObject(r);
    return n;
}

static void slide(redisContext *c) {
    const long long rows[4][2] = {{1, 2}, {1, 1}, {1, 0}, {0, 0}};
    int ok = 1;
    for (int i = 0; i < 4; i++) {
        redisReply *r = redisCommand(c, "RL.SLIDE slide 3 3600");
        ok = ok && field(r, 0) == rows[i][0] && field(r, 1) == 3 && field(r, 2) == rows[i][1] &&
             (field(r, 3) == 0) == (rows[i][0] == 1) && field(r, 4) > 0 && field(r, 4) <= 3600001;
        freeReplyObject(r);
    }
    verdict(ok, c->errstr[0] ? c->errstr : NULL);
}

static void counter(redisContext *c) {
    redisReply *r = redisCommand(c, "RL.COUNTER counter 10 3600 COST 4");
    verdict(field(r, 0) == 1 && field(r, 1) == 10 && field(r, 2) == 6 && field(r, 3) == 0, NULL);
    freeReplyObject(r);
}

static void policy(redisContext *c) {
    freeReplyObject(redisCommand(c, "RL.POLICY SET plan SLIDE 3 3600"));
    redisReply *r = redisCommand(c, "RL.CHECK plan k");
    int ok = field(r, 0) == 1 && field(r, 1) == 3 && field(r, 2) == 2 && field(r, 3) == 0;
    freeReplyObject(r);
    r = redisCommand(c, "RL.POLICY GET plan"); /* keys and values; the name is first */
    ok = ok && r && r->type == REDIS_REPLY_ARRAY && r->elements > 1 && strcmp(r->element[1]->str, "plan") == 0;
    verdict(ok, r && r->type == REDIS_REPLY_ERROR ? r->str : NULL);
    freeReplyObject(r);
}

/* begins reports whether a reply is an array that begins with so many integers. */
static int begins(const redisReply *r, size_t n, const long long *want) {
    if (r == NULL || r->type != REDIS_REPLY_ARRAY || r->elements < n) return 0;
    for (size_t i = 0; i < n; i++)
        if (r->element[i]->type != REDIS_REPLY_INTEGER || r->element[i]->integer != want[i]) return 0;
    return 1;
}

static void holds(redisContext *c) {
    const struct { const char *line; size_t n; long long want[4]; } steps[] = {
        {"RL.SLIDE once 5 3600 ONCE a", 4, {1, 5, 4, 0}},
        {"RL.SLIDE once 5 3600 ONCE a", 4, {1, 5, 4, 0}},
        {"RL.RESERVE reserve 100 3600 COST 40 ID a", 4, {1, 100, 60, 0}},
        {"RL.SETTLE reserve a 15", 3, {1, 15, 25}},
        {"RL.ACQUIRE slots 1 ID a", 4, {1, 1, 0, 0}},
        {"RL.ACQUIRE slots 1 ID b", 3, {0, 1, 0}},
    };
    int ok = 1;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        redisReply *r = redisCommand(c, steps[i].line);
        ok = ok && begins(r, steps[i].n, steps[i].want);
        freeReplyObject(r);
    }
    redisReply *r = redisCommand(c, "RL.RELEASE slots a b");
    ok = ok && r && r->type == REDIS_REPLY_INTEGER && r->integer == 1;
    freeReplyObject(r);
    r = redisCommand(c, "RL.SLIDE user 5 3600 AND everyone 9 3600");
    ok = ok && r && r->type == REDIS_REPLY_ARRAY && r->elements == 2 && begins(r->element[0], 4, (long long[]){1, 5, 4, 0}) &&
         begins(r->element[1], 4, (long long[]){1, 9, 8, 0});
    verdict(ok, r && r->type == REDIS_REPLY_ERROR ? r->str : NULL);
    freeReplyObject(r);
}

static void pipeline(redisContext *c) {
    int ok = 1;
    for (int i = 0; i < 20; i++) redisAppendCommand(c, "RL.SLIDE pipeline 20 3600");
    for (int i = 0; i < 20; i++) {
        void *r = NULL;
        ok = ok && redisGetReply(c, &r) == REDIS_OK && field(r, 2) == 19 - i;
        freeReplyObject(r);
    }
    verdict(ok, NULL);
}

static void transaction(redisContext *c) {
    freeReplyObject(redisCommand(c, "MULTI"));
    for (int i = 0; i < 3; i++) freeReplyObject(redisCommand(c, "RL.SLIDE transaction 2 3600"));
    redisReply *r = redisCommand(c, "EXEC");
    int ok = r && r->type == REDIS_REPLY_ARRAY && r->elements == 3;
    for (int i = 0; ok && i < 3; i++) ok = field(r->element[i], 0) == (i < 2);
    verdict(ok, r && r->type == REDIS_REPLY_ERROR ? r->str : NULL);
    freeReplyObject(r);
}

static void *task(void *unused) {
    redisContext *c = dial(getenv("RL_PASSWORD"));
    (void)unused;
    long long allowed = c && !c->err ? first(c, "RL.SLIDE parallel 30 3600") : -2;
    if (c) redisFree(c);
    return (void *)(allowed == 1 ? 1L : 0L);
}

static void parallel(void) {
    pthread_t threads[50];
    long admitted = 0;
    for (int i = 0; i < 50; i++) pthread_create(&threads[i], NULL, task, NULL);
    for (int i = 0; i < 50; i++) {
        void *allowed;
        pthread_join(threads[i], &allowed);
        admitted += (long)allowed;
    }
    verdict(admitted == 30, NULL);
}

static void error(redisContext *c) {
    redisReply *r = redisCommand(c, "RL.SLIDE error 0 3600");
    verdict(r && r->type == REDIS_REPLY_ERROR && strcmp(r->str, LIMIT_ERROR) == 0, r ? r->str : c->errstr);
    freeReplyObject(r);
}

static void reconnect(redisContext *c) {
    char line[8] = "";
    printf("RESTART\n");
    fflush(stdout);
    int ok = fgets(line, sizeof line, stdin) && strcmp(line, "OK\n") == 0;
    ok = ok && redisReconnect(c) == REDIS_OK;
    login(c, getenv("RL_PASSWORD"));
    verdict(ok && !c->err && first(c, "RL.SLIDE reconnect 1 3600") == 1, c->errstr);
    redisFree(c);
}

int main(void) {
    printf("version %d.%d.%d\n", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    redisContext *c = dial(getenv("RL_PASSWORD"));
    check = "connect";
    verdict(c && !c->err, c ? c->errstr : NULL);
    if (failed) return 1;
    if (getenv("RL_PASSWORD")) {
        check = "auth";
        redisContext *stranger = dial("wrong");
        verdict(stranger && strncmp(stranger->errstr, "WRONGPASS invalid username-password pair", 40) == 0, NULL);
        redisFree(stranger);
    }
    check = "slide", slide(c);
    check = "counter", counter(c);
    check = "policy", policy(c);
    check = "holds", holds(c);
    check = "pipeline", pipeline(c);
    check = "transaction", transaction(c);
    check = "parallel", parallel();
    check = "error", error(c);
    check = "reconnect", reconnect(c);
    return failed;
}

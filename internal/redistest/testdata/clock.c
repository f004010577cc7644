/* Preloaded, this library shifts or stops a program's time of day. A file has two numbers,
 * which may be rewritten while the program runs: the ns by which it is shifted, and the ns
 * since the epoch at which it stands still, 0 if it runs. The library allocates nothing and
 * looks up no symbols, so that an allocator may call it while it starts. Monotonic clocks
 * run as ever. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static volatile const struct {
	int64_t shift, stopped;
} *set; /* ns; NULL: the machine's time */

__attribute__((constructor)) static void map_file(void) {
	const char *path = getenv("CLOCK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *at = mmap(NULL, sizeof *set, PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		set = at;
	close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	int failed = syscall(SYS_clock_gettime, id, ts);
	if (!failed && set && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t ns = set->stopped;
		if (!ns)
			ns = ts->tv_sec * SECOND + ts->tv_nsec + set->shift;
		ts->tv_sec = ns / SECOND;
		ts->tv_nsec = ns % SECOND;
	}
	return failed;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	struct timespec ts;
	(void)zone;
	int failed = clock_gettime(CLOCK_REALTIME, &ts);
	if (!failed) {
		tv->tv_sec = ts.tv_sec;
		tv->tv_usec = ts.tv_nsec / 1000;
	}
	return failed;
}

time_t time(time_t *at) {
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts))
		return -1;
	if (at)
		*at = ts.tv_sec;
	return ts.tv_sec;
}

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// moment is a line of a worker: a job that began or ended at a time in ns.
type moment struct {
	what, job string
	at        int64
}

// moments returns what workers have written.
func moments(workers ...*program) (all []moment) {
	for _, w := range workers {
		for line := range strings.Lines(w.log.String()) {
			if words := strings.Fields(line); len(words) == 3 {
				if at, err := strconv.ParseInt(words[2], 10, 64); err == nil {
					all = append(all, moment{words[0], words[1], at})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return all
}

// running returns the jobs that have begun and not ended.
func running(all []moment) map[string]bool {
	jobs := make(map[string]bool)
	for _, m := range all {
		if m.what == "begin" {
			jobs[m.job] = true
		} else {
			delete(jobs, m.job)
		}
	}
	return jobs
}

// sharesSlots tries workers, of which some are killed while they have all the slots: never more jobs run at a
// time than there are slots, the others get those of the killed, and none is left over.
func sharesSlots(e example) error {
	const slots, workers, jobs = 2, 5, 4
	proxy, err := startProxy()
	if err != nil {
		return err
	}
	defer func() { _ = proxy.stop() }()
	var all []*program
	logs := func() (text string) {
		for _, w := range all {
			text += w.log.String()
		}
		return text
	}
	for i := range workers {
		w, err := e.launch(proxy, fmt.Sprint("SLOTS=", slots), "TTL=600")
		if err != nil {
			return err
		}
		defer w.kill()
		all = append(all, w)
		for j := range jobs {
			if _, err := fmt.Fprintf(w.stdin, "%d-%d\n", i, j); err != nil {
				return err
			}
		}
	}
	killed, at, err := killBusy(all, slots)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, logs())
	}
	want := workers * jobs
	for i, w := range all {
		if killed[i] {
			want -= jobs
			for _, m := range moments(w) {
				if m.what == "end" {
					want++
				}
			}
		} else if err := w.stdin.Close(); err != nil {
			return err
		}
	}
	for _, w := range all {
		select {
		case <-w.exited:
		case <-time.After(programTime):
			return fmt.Errorf("a worker has not ended in %s\n%s", programTime, logs())
		}
	}

	history := moments(all...)
	for job := range running(history) { // these ended with their workers
		history = append(history, moment{"killed", job, at})
	}
	slices.SortStableFunc(history, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	done := 0
	for i, m := range history {
		if m.what == "end" {
			done++
		}
		if now := running(history[:i+1]); len(now) > slots {
			return fmt.Errorf("%d jobs at a time: %v\n%s", len(now), now, logs())
		}
	}
	if done != want {
		return fmt.Errorf("%d jobs of %d are done\n%s", done, want, logs())
	}
	return counts(proxy, "jobs:thumbnails", "RL.ACQUIRE", 0, 0)
}

// killBusy kills workers that have all the slots, and returns which ones, and when in ns.
func killBusy(all []*program, slots int) (killed map[int]bool, at int64, err error) {
	err = until("all slots are taken", func() bool {
		before := running(moments(all...))
		if len(before) < slots {
			return false
		}
		killed = make(map[int]bool)
		for job := range before {
			i := int(job[0] - '0')
			killed[i] = true
			_ = syscall.Kill(-all[i].cmd.Process.Pid, syscall.SIGSTOP)
		}
		at = time.Now().UnixNano()
		if maps.Equal(before, running(moments(all...))) {
			return true
		}
		for i := range killed { // one has ended its job meanwhile
			_ = syscall.Kill(-all[i].cmd.Process.Pid, syscall.SIGCONT)
		}
		return false
	})
	for i := range killed {
		all[i].kill()
	}
	return killed, at, err
}

// Package proc has the CPU time of processes, for tests and benchmarks.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPU returns the CPU time of a process, of its children that have ended, and of those that
// run, in steps of 10 ms. It needs Linux.
func CPU(pid int) (time.Duration, error) {
	const tick = 10 * time.Millisecond // as Linux reports it
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // the name may hold spaces
	fields := strings.Fields(string(rest))
	if len(fields) < 15 {
		return 0, fmt.Errorf("/proc/%d/stat has another form", pid)
	}
	sum := time.Duration(0)
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		ticks, wrong := strconv.Atoi(field)
		sum, err = sum+time.Duration(ticks)*tick, errors.Join(err, wrong)
	}
	children, wrong := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	err = errors.Join(err, wrong)
	for child := range strings.FieldsSeq(string(children)) {
		pid, wrong := strconv.Atoi(child)
		if err = errors.Join(err, wrong); err != nil {
			return 0, err
		}
		used, wrong := CPU(pid)
		sum, err = sum+used, errors.Join(err, wrong)
	}
	return sum, err
}

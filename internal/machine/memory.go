// Package machine reports which resources the machine gives the process: memory, open files and
// folders.
package machine

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// ContainerMemory returns the most bytes of memory that the control groups of this process allow, or
// 0 if they set no limit. root is the root of the file system, in which it reads the files of both
// versions of Linux's control groups. Other systems do not have these files.
func ContainerMemory(root fs.FS) (limit int64) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(groups)) {
		_, line, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(line, ":")
		switch {
		case controllers == "":
			limit = least(limit, walk(root, "sys/fs/cgroup", group, "memory.max", "memory.high"))
		case strings.Contains(","+controllers+",", ",memory,"):
			limit = least(limit, walk(root, "sys/fs/cgroup/memory", group, "memory.limit_in_bytes"))
		}
	}
	return limit
}

// walk returns the smallest limit of a group and its parents. It includes the root, because in a
// container the process's own group may be mounted there.
func walk(root fs.FS, mount, group string, files ...string) (limit int64) {
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		for _, name := range files {
			limit = least(limit, read(root, path.Join(mount, group, name)))
		}
		if group == "/" {
			return limit
		}
	}
}

// read returns the number in a file, or 0 if it is not a limit.
func read(root fs.FS, name string) int64 {
	const none = 1 << 60 // in version 1, a number near 2^63 means that there is no limit
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64) // "max" is no number
	if err != nil || n >= none {
		return 0
	}
	return n
}

// least returns the smaller of two limits, where 0 means no limit.
func least(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Memory returns the bytes of memory of the machine, or 0 if they are unknown. root is the root of
// the file system.
func Memory(root fs.FS) int64 {
	f, err := root.Open("proc/meminfo")
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }() // nothing was written
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == "MemTotal:" {
			kB, _ := strconv.ParseInt(words[1], 10, 64) // 0 if it is not a number
			return kB << 10
		}
	}
	return 0
}

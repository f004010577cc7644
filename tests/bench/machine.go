package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// otherWork returns the load average of the last minute, or NaN if it is unknown.
func otherWork() float64 {
	first, _, _ := strings.Cut(file("/proc/loadavg"), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return math.NaN() // not Linux
	}
	return load
}

// describe returns lines that describe the machine and the versions of the programs.
func describe(ctx context.Context, l *lab) []string {
	return []string{
		field(file("/proc/cpuinfo"), "model name") + ", " + say(ctx, "nproc") + " cores, " + memory() + " of memory",
		"Linux " + say(ctx, "uname", "-r") + ", " + runtime.Version(),
		say(ctx, l.Binary, "--version"),
		say(ctx, "redis-server", "--version"),
		say(ctx, "redis-benchmark", "--version"),
	}
}

// memory returns the size of the machine's memory.
func memory() string {
	total := field(file("/proc/meminfo"), "MemTotal")
	kb, err := strconv.ParseFloat(strings.TrimSuffix(total, " kB"), 64)
	if err != nil {
		return total
	}
	return strconv.FormatFloat(kb/(1<<20), 'f', 1, 64) + " GB"
}

// say returns the first line that a program writes, or why it failed.
func say(ctx context.Context, program string, args ...string) string {
	out, err := exec.CommandContext(ctx, program, args...).Output() // #nosec G204 -- our own
	if err != nil {
		return program + ": " + err.Error()
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return string(line)
}

func file(name string) string {
	b, err := os.ReadFile(name) // #nosec G304 -- our own
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// field returns the value of a line "name : value".
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if n, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(n) == name {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

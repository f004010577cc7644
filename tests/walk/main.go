// Command walk lists the functions that one RL.SLIDE on an idle node passes, from the
// bytes that a client sends to the bytes that it gets back, and fails if there are more
// than the bounds allow, or if any of them is about splitting or forwarded commands. It
// is built with coverage counters, which it clears before the request and reads after
// it: see the target walk of the Makefile.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/coverage"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/redis"
	"github.com/rlproxy/rlproxy/resp"
)

// Bounds of the engine's part of the walk, from Engine.Do to the decision. The wire to
// the client, the commands, and the connection to the node are only counted.
const (
	maxFunctions = 52
	maxFiles     = 22
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

func run() error {
	node, stop, err := startNode()
	if err != nil {
		return err
	}
	defer stop()
	fleet, err := backend.Open(backend.Config{Backends: []string{"redis://" + node}, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	server := resp.NewServer(resp.Config{}, commands.New(commands.Config{Engine: redis.Open(fleet, redis.Config{})}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = server.Serve(listener) }() // until the process ends
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	replies := bufio.NewReader(conn)
	ask := func(key string) error {
		if _, err := fmt.Fprintf(conn, "*4\r\n$8\r\nRL.SLIDE\r\n$1\r\n%s\r\n$3\r\n100\r\n$2\r\n60\r\n", key); err != nil {
			return err
		}
		for line := range 6 { // the array's header and its five integers
			text, err := replies.ReadString('\n')
			if err != nil || line == 0 && text != "*5\r\n" {
				return fmt.Errorf("the reply %q: %w", text, err)
			}
		}
		return nil
	}
	debug.SetGCPercent(-1) // a collection would empty pools that are warm
	for range 20 {         // the node has the library then, all memory is warm, and the client is alone
		for _, key := range []string{"a", "b"} {
			if err := ask(key); err != nil {
				return err
			}
		}
	}
	time.Sleep(300 * time.Millisecond) // a probe or a subscription may still be under way
	var shortest *walk
	for range 5 { // timers of other goroutines only add to what a request passes
		if err := coverage.ClearCounters(); err != nil {
			return err
		}
		if err := ask("a"); err != nil {
			return err
		}
		w, err := passed()
		if err != nil {
			return err
		}
		if shortest == nil || len(w.lines) < len(shortest.lines) {
			shortest = w
		}
	}
	return shortest.report()
}

// startNode starts a redis-server and returns its address.
func startNode() (address string, stop func(), err error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address = free.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	if err := free.Close(); err != nil {
		return "", nil, err
	}
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	for range 200 {
		if conn, err := net.Dial("tcp", address); err == nil {
			return address, stop, conn.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	return "", nil, fmt.Errorf("redis-server on %s does not answer", address)
}

// function is a line of go tool covdata func: file, line, function and share covered.
var function = regexp.MustCompile(`^github\.com/rlproxy/rlproxy/(\S+\.go):\d+:\s+(\S+)\s+([\d.]+)%`)

// walk is the functions that a request passed.
type walk struct {
	lines     []string                   // a file and a function each
	functions map[string]int             // by area
	files     map[string]map[string]bool // by area
	foreign   error                      // a function is about another feature
}

// passed returns the functions that were called since the counters were cleared.
func passed() (*walk, error) {
	dir, err := os.MkdirTemp("", "walk")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := coverage.WriteMetaDir(dir); err != nil {
		return nil, err
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return nil, err
	}
	out, err := exec.Command("go", "tool", "covdata", "func", "-i="+dir).Output()
	if err != nil {
		return nil, err
	}
	w := &walk{functions: map[string]int{}, files: map[string]map[string]bool{}}
	for line := range bytes.Lines(out) {
		m := function.FindStringSubmatch(string(line))
		if m == nil || m[3] == "0.0" || strings.HasPrefix(m[1], "tests/") {
			continue
		}
		w.add(m[1], m[2])
	}
	return w, nil
}

// add adds a function to its area.
func (w *walk) add(file, name string) {
	w.lines = append(w.lines, fmt.Sprintf("%-34s %s", file, name))
	folder := filepath.Dir(file)
	if folder == "engine/split" || folder == "engine/forward" {
		w.foreign = fmt.Errorf("%s is about another feature", name)
	}
	area, _, _ := strings.Cut(folder, "/")
	switch {
	case folder == "engine/observe" || folder == "shard/topk" || folder == "internal/histogram":
		area = "observe" // what counts the decision once it is made
	case area == "shard":
		area = "engine"
	case file == "engine/backend/connections.go" || file == "engine/backend/scanner.go":
		area = "node" // called by go-redis for each read
	case name == "*Pipeline.Add" || name == "*Pipeline.Name" || name == "*Pipeline.Reset":
		area = "commands" // which fill and empty the pipeline
	}
	if w.functions[area]++; w.files[area] == nil {
		w.files[area] = map[string]bool{}
	}
	w.files[area][file] = true
}

// report prints the functions, and holds them to the bounds.
func (w *walk) report() error {
	fmt.Println(strings.Join(w.lines, "\n"))
	for _, area := range []string{"resp", "commands", "engine", "observe", "node"} {
		fmt.Printf("%s: %d functions in %d files\n", area, w.functions[area], len(w.files[area]))
	}
	if w.foreign != nil {
		return w.foreign
	}
	if w.functions["engine"] > maxFunctions || len(w.files["engine"]) > maxFiles {
		return fmt.Errorf("more than %d functions in %d files", maxFunctions, maxFiles)
	}
	return nil
}

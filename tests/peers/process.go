package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rlproxy/rlproxy/internal/freeport"
	"github.com/rlproxy/rlproxy/tests/proc"
)

// Root returns the folder of the project, which the working directory is in.
func Root() (string, error) {
	folder, err := os.Getwd()
	for ; err == nil; folder = filepath.Dir(folder) {
		text, missing := os.ReadFile(filepath.Join(folder, "go.mod")) // #nosec G304 -- our own
		if missing == nil && bytes.HasPrefix(text, []byte("module github.com/rlproxy/rlproxy\n")) {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", errors.New("the working directory is not in rlproxy's source")
		}
	}
	return "", err
}

// process is a program that runs in the project's folder.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser // for adapters; nil for servers, whose output is text
	text  tail          // the last of what it wrote
	ended chan struct{} // closed when the process has ended
}

// launch starts a program. With a dialogue it is talked to by its standard input and output.
func launch(ctx context.Context, argv, environment []string, dialogue bool) (p *process, err error) {
	p = &process{ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...) // #nosec G204 -- our own
	if p.cmd.Dir, err = Root(); err != nil {
		return nil, err
	}
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stderr = &p.text
	if dialogue {
		if p.in, err = p.cmd.StdinPipe(); err != nil {
			return nil, err
		}
		reader, writer := io.Pipe()
		p.out, p.cmd.Stdout = reader, writer
	} else {
		p.cmd.Stdout = &p.text
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w; scripts/install-peers.sh builds the peers", err)
	}
	go func() { // ends with the process, which stop and the context end
		_ = p.cmd.Wait() // how it ended shows in its output
		if w, ok := p.cmd.Stdout.(*io.PipeWriter); ok {
			_ = w.Close() // never fails
		}
		close(p.ended)
	}()
	return p, nil
}

// stop ends the process: politely at first, at once after 2 s.
func (p *process) stop() {
	if p.in != nil {
		_ = p.in.Close()  // it may have ended
		_ = p.out.Close() // never fails
	} else {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // likewise
	}
	select {
	case <-p.ended:
	case <-time.After(2 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// cpu is the CPU time of the process and its children.
func (p *process) cpu() (time.Duration, error) { return proc.CPU(p.cmd.Process.Pid) }

// resident is the memory that the process has resident, in bytes.
func (p *process) resident() (int64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat))
	if len(fields) < 2 {
		return 0, errors.New("/proc/*/statm has another form")
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// startServer runs a server on a free port of 127.0.0.1 and waits until it listens.
func startServer(ctx context.Context, command func(port, redis string) (argv, environment []string), redis string) (*process, string, error) {
	free, err := freeport.Take()
	if err != nil {
		return nil, "", err
	}
	port := strconv.Itoa(free)
	argv, environment := command(port, redis)
	p, err := launch(ctx, argv, environment, false)
	if err != nil {
		return nil, "", err
	}
	address := "127.0.0.1:" + port
	for range 3000 {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err == nil {
			err = c.Close()
		}
		select {
		case <-p.ended:
			return p, "", fmt.Errorf("it ended: %s", p.text.String())
		case <-ctx.Done():
			return p, "", ctx.Err()
		case <-time.After(10 * time.Millisecond):
			if err == nil { // the process has not ended, so it is the one that listens
				return p, address, nil
			}
		}
	}
	return p, "", fmt.Errorf("nothing listens on %s: %s", address, p.text.String())
}

// tail keeps the end of what is written, at most 64 KiB.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - 64<<10; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

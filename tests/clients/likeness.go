package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The likeness of rlproxy and envoyproxy/ratelimit: both have the same configurations, rlproxy as it imports them, and get
// the same requests, at random. Their answers must be equal, except for what docs/gateways.md says. A run lies within one
// hour, which is the shortest window, so that no window ends between an answer and the other.

const (
	likenessName  = "envoyproxy/ratelimit"
	original      = "tests/.cache/peers/ratelimit/server" // of scripts/install-peers.sh
	likenessSteps = 3000
)

// likenessFiles are the configurations. Windows shorter than an hour become hours.
var likenessFiles = []string{"policy/envoy/testdata/store.yaml", "policy/envoy/testdata/letters.yaml", "policy/envoy/testdata/shared.yaml"}

// likenessMore has what those have not: limits at two levels, several wildcards, quota_mode.
const likenessMore = `domain: more/1
descriptors:
- {key: plan, rate_limit: {unit: hour, requests_per_unit: 4}, descriptors: [{key: ip, value: '10.1', rate_limit: {unit: month, requests_per_unit: 2}}, {key: ip, rate_limit: {unit: year, requests_per_unit: 9}}]}
- {key: ip, value: 10.*, rate_limit: {unit: day, requests_per_unit: 6}}
- {key: ip, value: 10.1*, rate_limit: {unit: week, requests_per_unit: 1}}
- {key: trial, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 3}}
`

// likeness is one run.
type likeness struct {
	theirs, ours ratelimit.RateLimitServiceClient
	rand         *rand.Rand
	compared     int // descriptors with a limit
	over         int // of them those over the limit
}

// alike compares the two, again if an hour ended meanwhile.
func alike() (err error) {
	for {
		began := time.Now()
		if err = new(likeness).run(); began.Truncate(time.Hour).Equal(time.Now().Truncate(time.Hour)) {
			return err
		}
	}
}

func (l *likeness) run() (err error) {
	dir, err := os.MkdirTemp("", "likeness")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	config := filepath.Join(dir, "config")
	if err := os.Mkdir(config, 0o700); err != nil {
		return err
	}
	short, imported := regexp.MustCompile(`(?i)unit: (second|minute)\b`), []string{"import"}
	for i := range len(likenessFiles) + 1 {
		text := []byte(likenessMore)
		if i < len(likenessFiles) {
			if text, err = os.ReadFile(likenessFiles[i]); err != nil {
				return err
			}
		}
		path := filepath.Join(config, fmt.Sprint(i, ".yaml"))
		if err := os.WriteFile(path, short.ReplaceAll(text, []byte("unit: hour")), 0o600); err != nil {
			return err
		}
		imported = append(imported, path)
	}
	var remarks bytes.Buffer
	cmd := exec.Command("bin/rlproxy", imported...) // #nosec G204 -- the names are ours
	cmd.Stderr = &remarks
	policies, _ := cmd.Output() // the exit code says that there is a remark
	if lines := strings.TrimSpace(remarks.String()); strings.Contains(lines, "\n") || !strings.Contains(lines, "quota_mode becomes SHADOW") {
		return errors.New("the import says " + lines)
	}
	path := filepath.Join(dir, "policies.conf")
	if err := os.WriteFile(path, policies, 0o600); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	proxy, err := startProxy("--include", path, "--rls-port", strconv.Itoa(port), "--rls-headers", "yes")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proxy.stop()) }()
	if l.ours, err = envoyClient(port); err != nil {
		return err
	}
	stop, err := l.startOriginal(dir)
	if err != nil {
		return err
	}
	defer stop()
	return l.compare()
}

// startOriginal starts envoyproxy/ratelimit, with the configurations in a folder, and a redis-server.
func (l *likeness) startOriginal(dir string) (stop func(), err error) {
	redis, err := startRedis()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, errors.Join(err, redis.stop())
	}
	var log logBuffer
	cmd := exec.Command(original)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Env = append(os.Environ(),
		"HOST=127.0.0.1", "PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT="+strconv.Itoa(port),
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.address(), "DISABLE_STATS=true", "RUNTIME_ROOT="+dir, "RUNTIME_WATCH_ROOT=false",
		"LIMIT_RESPONSE_HEADERS_ENABLED=true", "MERGE_DOMAIN_CONFIG=true")
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; scripts/install-peers.sh builds it", err), redis.stop())
	}
	exited := make(chan struct{})
	go func() { // ends with the process, which stop kills
		_ = cmd.Wait() // how it ended shows in its log
		close(exited)
	}()
	stop = func() {
		_ = cmd.Process.Kill() // it may have ended
		<-exited
		_ = redis.stop() // nothing depends on how it ends
	}
	for deadline := time.Now().Add(serverTime); ; {
		if c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second); err == nil {
			_ = c.Close() // nothing was sent
			break
		}
		select {
		case <-exited:
			stop()
			return nil, fmt.Errorf("%s ended: %s", original, log.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			stop()
			return nil, fmt.Errorf("%s does not listen: %s", original, log.String())
		}
	}
	l.theirs, err = envoyClient(port)
	return stop, err
}

func envoyClient(port int) (ratelimit.RateLimitServiceClient, error) {
	c, err := grpc.NewClient("127.0.0.1:"+strconv.Itoa(port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return ratelimit.NewRateLimitServiceClient(c), nil
}

func (l *likeness) compare() error {
	l.rand = rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)) // #nosec G404 -- not for secrets
	for range likenessSteps {
		r := l.request()
		ctx, cancel := context.WithTimeout(context.Background(), serverTime)
		began := time.Now()
		theirs, err := l.theirs.ShouldRateLimit(ctx, r)
		if err != nil {
			cancel()
			return fmt.Errorf("%s: %w", original, err)
		}
		ours, err := l.ours.ShouldRateLimit(ctx, r)
		cancel()
		if err != nil {
			return err
		}
		if began.Truncate(time.Hour) != time.Now().Truncate(time.Hour) {
			return nil // the caller begins again
		}
		if err := l.equal(theirs, ours, time.Since(began)); err != nil {
			return fmt.Errorf("%w\nrequest: %v\nenvoyproxy/ratelimit: %v\nrlproxy: %v", err, r, theirs, ours)
		}
	}
	if l.over < likenessSteps/20 || l.compared-l.over < likenessSteps/20 {
		return fmt.Errorf("of %d limits %d were over, so the comparison says little", l.compared, l.over)
	}
	return nil
}

// request returns a random request, with values that the configurations name and others.
func (l *likeness) request() *ratelimit.RateLimitRequest {
	one := func(all ...string) string { return all[l.rand.IntN(len(all))] }
	r := &ratelimit.RateLimitRequest{Domain: one("store", "letters", "letters", "more/1", "more/1", "none")}
	if l.rand.IntN(3) == 0 {
		r.HitsAddend = uint32(l.rand.IntN(30)) // #nosec G115 -- it is not negative
	}
	for range 1 + l.rand.IntN(3) {
		d := new(descriptors.RateLimitDescriptor)
		for range 1 + l.rand.IntN(2) {
			d.Entries = append(d.Entries, &descriptors.RateLimitDescriptor_Entry{
				Key: one("table", "remote_address", "health", "kind", "recipient", "service", "user", "attachment", "plan", "ip", "trial"),
				Value: one("orders", "invoices", "192.0.2.66", "192.0.2.10", "198.51.100.7", "198.51.100.8", "newsletter", "ada", "grace",
					"video/x", "video/draft/x", "text/plain", "free", "10.1", "10.2", "a|b", "%", "é", "", "other"),
			})
		}
		if fixed := l.rand.IntN(5); fixed < 4 { // sequences of keys that have limits
			keys := [][]string{{"kind", "recipient"}, {"service", "user"}, {"plan", "ip"}, {"remote_address"}}[fixed]
			for i := range d.Entries[:min(len(keys), len(d.Entries))] {
				d.Entries[i].Key = keys[i]
			}
		}
		switch l.rand.IntN(8) {
		case 0:
			d.HitsAddend = wrapperspb.UInt64(1 + l.rand.Uint64N(9))
		case 1:
			if r.Domain != "none" { // a limit of its own that is always the same
				unit := l.rand.IntN(4)
				d.Entries = d.Entries[:1]
				d.Entries[0].Key = "brought"
				d.Limit = &descriptors.RateLimitDescriptor_RateLimitOverride{
					RequestsPerUnit: uint32(2 + 3*unit), Unit: envoytype.RateLimitUnit(3 + unit), // #nosec G115 -- small
				}
			}
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// equal compares two answers, of which the second came at most some time after the first.
func (l *likeness) equal(theirs, ours *ratelimit.RateLimitResponse, later time.Duration) error {
	within := int64(later/time.Second) + 1 // what a whole number of seconds may have changed by
	if theirs.OverallCode != ours.OverallCode || len(theirs.Statuses) != len(ours.Statuses) {
		return errors.New("the answers differ")
	}
	blocked := false
	for i, their := range theirs.Statuses {
		our := ours.Statuses[i]
		limit := their.GetCurrentLimit()
		switch {
		case their.Code != our.Code, (limit == nil) != (our.CurrentLimit == nil):
			return fmt.Errorf("descriptor %d differs", i)
		case limit == nil: // limit_remaining may differ: see docs/gateways.md
			continue
		case limit.RequestsPerUnit == 0 && our.CurrentLimit.RequestsPerUnit == 0:
			blocked = true // the unit may differ
			continue
		}
		l.compared++
		if their.Code == ratelimit.RateLimitResponse_OVER_LIMIT {
			l.over++
		}
		if limit.RequestsPerUnit != our.CurrentLimit.RequestsPerUnit || limit.Unit != our.CurrentLimit.Unit || their.LimitRemaining != our.LimitRemaining ||
			their.DurationUntilReset != nil && !soon(their.DurationUntilReset.Seconds, our.DurationUntilReset.GetSeconds(), within) {
			return fmt.Errorf("descriptor %d differs", i)
		}
	}
	if len(theirs.ResponseHeadersToAdd) != len(ours.ResponseHeadersToAdd) {
		return errors.New("the headers differ")
	}
	for i, their := range theirs.ResponseHeadersToAdd {
		our := ours.ResponseHeadersToAdd[i]
		same := their.Value == our.Value
		if a, err := strconv.ParseInt(their.Value, 10, 64); i == 2 && err == nil {
			b, err := strconv.ParseInt(our.Value, 10, 64)
			same = err == nil && (blocked || soon(a, b, within))
		}
		if their.Key != our.Key || !same || !bytes.Equal(their.RawValue, our.RawValue) {
			return fmt.Errorf("the header %s differs", their.Key)
		}
	}
	return nil
}

// soon reports whether of two numbers of seconds the second is the first, or less by at most some seconds.
func soon(first, second, most int64) bool { return second <= first && first-second <= most }

// originalVersion returns the version of envoyproxy/ratelimit.
func originalVersion() string {
	text, err := os.ReadFile("tests/peers/ratelimit/go.mod")
	_, after, _ := strings.Cut(string(text), "envoyproxy/ratelimit v")
	if version, _, found := strings.Cut(after, " "); err == nil && found {
		return version
	}
	return ""
}

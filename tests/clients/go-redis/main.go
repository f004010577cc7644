// Command go-redis checks go-redis v9 against rlproxy: HELLO 3 first, a pool of
// connections, no error for a lost one until its retries are used up.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const limitError = "ERR limit must be an integer between 1 and 1000000000000; it was '0'"

var ctx = context.Background()

func options() *redis.Options {
	o := &redis.Options{
		Addr:     os.Getenv("RL_HOST") + ":" + os.Getenv("RL_PORT"),
		Username: os.Getenv("RL_USERNAME"),
		Password: os.Getenv("RL_PASSWORD"),
		// Its own 3 s are too short for a busy machine: after them it repeats the command.
		DialTimeout: 20 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
	}
	if os.Getenv("RL_DEFAULT") == "" {
		o.Protocol, _ = strconv.Atoi(os.Getenv("RL_PROTO"))
	}
	return o
}

func main() {
	client := redis.NewClient(options())
	checks := []struct {
		name string
		run  func(*redis.Client) error
	}{
		{"connect", connect}, {"auth", auth}, {"slide", slide}, {"counter", counter}, {"policy", policy},
		{"holds", holds},
		{"pipeline", pipeline}, {"transaction", transaction}, {"parallel", parallel},
		{"error", errorReply}, {"reconnect", reconnect},
	}
	fmt.Println("version", version("github.com/redis/go-redis/v9"))
	failed := false
	for _, c := range checks {
		if c.name == "auth" && os.Getenv("RL_PASSWORD") == "" {
			continue
		}
		if err := c.run(client); err != nil {
			failed = true
			fmt.Println("FAIL", c.name, err)
			continue
		}
		fmt.Println("ok", c.name)
	}
	if failed {
		os.Exit(1)
	}
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "unknown"
}

func want(ok bool, got any) error {
	if !ok {
		return fmt.Errorf("unexpected: %v", got)
	}
	return nil
}

func connect(c *redis.Client) error {
	info, err := c.Do(ctx, "CLIENT", "INFO").Text()
	if err != nil {
		return err
	}
	return want(strings.Contains(info, "resp="+os.Getenv("RL_PROTO")), info)
}

func auth(*redis.Client) error {
	o := options()
	o.Password = "wrong"
	err := redis.NewClient(o).Ping(ctx).Err()
	return want(err != nil && strings.HasPrefix(err.Error(), "WRONGPASS invalid username-password pair"), err)
}

func slide(c *redis.Client) error {
	for _, row := range [][2]int64{{1, 2}, {1, 1}, {1, 0}, {0, 0}} {
		r, err := c.Do(ctx, "RL.SLIDE", "slide", 3, 3600).Int64Slice()
		if err != nil {
			return err
		}
		ok := len(r) == 5 && r[0] == row[0] && r[1] == 3 && r[2] == row[1] &&
			(r[3] == 0) == (r[0] == 1) && r[4] > 0 && r[4] <= 3_600_001
		if !ok {
			return want(false, r)
		}
	}
	return nil
}

func counter(c *redis.Client) error {
	r, err := c.Do(ctx, "RL.COUNTER", "counter", 10, 3600, "COST", 4).Int64Slice()
	if err != nil {
		return err
	}
	return want(len(r) == 5 && r[0] == 1 && r[1] == 10 && r[2] == 6 && r[3] == 0, r)
}

func policy(c *redis.Client) error {
	if err := c.Do(ctx, "RL.POLICY", "SET", "plan", "SLIDE", 3, 3600).Err(); err != nil {
		return err
	}
	r, err := c.Do(ctx, "RL.CHECK", "plan", "k").Int64Slice()
	if err != nil {
		return err
	}
	if err := want(len(r) == 5 && r[0] == 1 && r[1] == 3 && r[2] == 2 && r[3] == 0, r); err != nil {
		return err
	}
	plan, err := c.Do(ctx, "RL.POLICY", "GET", "plan").Result()
	if err != nil {
		return err
	}
	limits, _ := field(plan, "limits").([]any)
	return want(field(plan, "name") == "plan" && len(limits) == 1 && field(limits[0], "limit") == int64(3), plan)
}

func holds(c *redis.Client) error {
	for _, step := range []struct{ line, reply string }{
		{"RL.SLIDE once 5 3600 ONCE a", "[1 5 4 0 "},
		{"RL.SLIDE once 5 3600 ONCE a", "[1 5 4 0 "},
		{"RL.RESERVE reserve 100 3600 COST 40 ID a", "[1 100 60 0 "},
		{"RL.SETTLE reserve a 15", "[1 15 25]"},
		{"RL.ACQUIRE slots 1 ID a", "[1 1 0 0 "},
		{"RL.ACQUIRE slots 1 ID b", "[0 1 0 "},
		{"RL.RELEASE slots a b", "1"},
		{"RL.SLIDE user 5 3600 AND everyone 9 3600", "[[1 5 4 0 "},
		{"RL.SLIDE user 5 3600 AND everyone 9 3600", "] [1 9 7 0 "},
	} {
		var words []any
		for _, word := range strings.Fields(step.line) {
			words = append(words, word)
		}
		reply, err := c.Do(ctx, words...).Result()
		if err != nil {
			return err
		}
		if text := fmt.Sprint(reply); !strings.Contains(text, step.reply) {
			return want(false, step.line+": "+text)
		}
	}
	return nil
}

// field returns a value of a map, which is an array of keys and values in RESP2.
func field(reply any, name string) any {
	switch m := reply.(type) {
	case map[any]any:
		return m[name]
	case []any:
		for i := 0; i+1 < len(m); i += 2 {
			if m[i] == name {
				return m[i+1]
			}
		}
	}
	return nil
}

func pipeline(c *redis.Client) error {
	var replies [20]*redis.Cmd
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range replies {
			replies[i] = p.Do(ctx, "RL.SLIDE", "pipeline", len(replies), 3600)
		}
		return nil
	})
	for i, reply := range replies {
		if r, _ := reply.Int64Slice(); err == nil && r[2] != int64(19-i) {
			err = want(false, r)
		}
	}
	return err
}

func transaction(c *redis.Client) error {
	var replies [3]*redis.Cmd
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for i := range replies {
			replies[i] = p.Do(ctx, "RL.SLIDE", "transaction", 2, 3600)
		}
		return nil
	})
	for i, reply := range replies {
		if r, _ := reply.Int64Slice(); err == nil && (r[0] == 1) != (i < 2) {
			err = want(false, r)
		}
	}
	return err
}

func parallel(c *redis.Client) error {
	var admitted atomic.Int64
	var tasks sync.WaitGroup
	for range 50 {
		tasks.Go(func() {
			if r, err := c.Do(ctx, "RL.SLIDE", "parallel", 30, 3600).Int64Slice(); err == nil {
				admitted.Add(r[0])
			}
		})
	}
	tasks.Wait()
	return want(admitted.Load() == 30, admitted.Load())
}

func errorReply(c *redis.Client) error {
	err := c.Do(ctx, "RL.SLIDE", "error", 0, 3600).Err()
	var reply redis.Error
	return want(errors.As(err, &reply) && err.Error() == limitError, err)
}

func reconnect(c *redis.Client) error {
	fmt.Println("RESTART")
	var line string
	if _, err := fmt.Scanln(&line); err != nil || line != "OK" {
		return want(false, line)
	}
	var err error
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(50 * time.Millisecond) {
		var r []int64
		if r, err = c.Do(ctx, "RL.SLIDE", "reconnect", 1, 3600).Int64Slice(); err == nil {
			return want(r[0] == 1, r)
		}
	}
	return err
}

// Command rueidis checks rueidis against rlproxy. By default it speaks RESP3 with
// client-side caching on, and does not start where the server refuses tracking.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const limitError = "ERR limit must be an integer between 1 and 1000000000000; it was '0'"

var ctx = context.Background()

func options() rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: []string{os.Getenv("RL_HOST") + ":" + os.Getenv("RL_PORT")},
		Username:    os.Getenv("RL_USERNAME"),
		Password:    os.Getenv("RL_PASSWORD"),
	}
	o.Dialer.Timeout, o.ConnWriteTimeout = 20*time.Second, 20*time.Second // its own 5 s are too short for a busy machine
	o.DisableCache = os.Getenv("RL_CACHE") == "off"
	o.AlwaysRESP2 = os.Getenv("RL_PROTO") == "2" // its cache needs RESP3
	return o
}

// call builds a command that the library does not know.
func call(c rueidis.Client, name string, args ...string) rueidis.Completed {
	return c.B().Arbitrary(name).Args(args...).Build()
}

func main() {
	fmt.Println("version", version("github.com/redis/rueidis"))
	client, err := rueidis.NewClient(options())
	if err != nil {
		fmt.Println("FAIL connect", err)
		os.Exit(1)
	}
	checks := []struct {
		name string
		run  func(rueidis.Client) error
	}{
		{"connect", connect}, {"auth", auth}, {"slide", slide}, {"counter", counter}, {"policy", policy}, {"holds", holds},
		{"pipeline", pipeline}, {"transaction", transaction}, {"parallel", parallel},
		{"error", errorReply}, {"cache", cache}, {"reconnect", reconnect},
	}
	failed := false
	for _, c := range checks {
		if c.name == "auth" && os.Getenv("RL_PASSWORD") == "" || c.name == "cache" && os.Getenv("RL_CACHE") == "off" {
			continue
		}
		if err := c.run(client); err != nil {
			failed = true
			fmt.Println("FAIL", c.name, err)
			continue
		}
		fmt.Println("ok", c.name)
	}
	client.Close()
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

func connect(c rueidis.Client) error {
	info, err := c.Do(ctx, c.B().ClientInfo().Build()).ToString()
	if err != nil {
		return err
	}
	return want(strings.Contains(info, "resp="+os.Getenv("RL_PROTO")), info)
}

func auth(rueidis.Client) error {
	o := options()
	o.Password = "wrong"
	_, err := rueidis.NewClient(o)
	return want(err != nil && strings.HasPrefix(err.Error(), "WRONGPASS invalid username-password pair"), err)
}

func slide(c rueidis.Client) error {
	for _, row := range [][2]int64{{1, 2}, {1, 1}, {1, 0}, {0, 0}} {
		r, err := c.Do(ctx, call(c, "RL.SLIDE", "slide", "3", "3600")).AsIntSlice()
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

func counter(c rueidis.Client) error {
	r, err := c.Do(ctx, call(c, "RL.COUNTER", "counter", "10", "3600", "COST", "4")).AsIntSlice()
	if err != nil {
		return err
	}
	return want(len(r) == 5 && r[0] == 1 && r[1] == 10 && r[2] == 6 && r[3] == 0, r)
}

func holds(c rueidis.Client) error {
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
		words := strings.Fields(step.line)
		reply, err := c.Do(ctx, call(c, words[0], words[1:]...)).ToAny()
		if err != nil {
			return err
		}
		if text := fmt.Sprint(reply); !strings.Contains(text, step.reply) {
			return want(false, step.line+": "+text)
		}
	}
	return nil
}

func policy(c rueidis.Client) error {
	if err := c.Do(ctx, call(c, "RL.POLICY", "SET", "plan", "SLIDE", "3", "3600")).Error(); err != nil {
		return err
	}
	r, err := c.Do(ctx, call(c, "RL.CHECK", "plan", "k")).AsIntSlice()
	if err != nil {
		return err
	}
	if err := want(len(r) == 5 && r[0] == 1 && r[1] == 3 && r[2] == 2 && r[3] == 0, r); err != nil {
		return err
	}
	plan, err := c.Do(ctx, call(c, "RL.POLICY", "GET", "plan")).AsMap()
	if err != nil {
		return err
	}
	name, limits := plan["name"], plan["limits"]
	if s, err := name.ToString(); err != nil || s != "plan" {
		return want(false, s)
	}
	pairs, err := limits.ToArray()
	if err != nil {
		return err
	}
	pair, err := pairs[0].AsIntMap()
	if err != nil {
		return err
	}
	return want(pair["limit"] == 3, pair)
}

func pipeline(c rueidis.Client) error {
	commands := make([]rueidis.Completed, 20)
	for i := range commands {
		commands[i] = call(c, "RL.SLIDE", "pipeline", "20", "3600")
	}
	for i, result := range c.DoMulti(ctx, commands...) {
		r, err := result.AsIntSlice()
		if err != nil {
			return err
		}
		if r[2] != int64(19-i) {
			return want(false, r)
		}
	}
	return nil
}

func transaction(c rueidis.Client) error {
	return c.Dedicated(func(d rueidis.DedicatedClient) error {
		results := d.DoMulti(ctx,
			c.B().Multi().Build(),
			call(c, "RL.SLIDE", "transaction", "2", "3600"),
			call(c, "RL.SLIDE", "transaction", "2", "3600"),
			call(c, "RL.SLIDE", "transaction", "2", "3600"),
			c.B().Exec().Build())
		replies, err := results[4].ToArray()
		if err != nil {
			return err
		}
		for i, reply := range replies {
			r, err := reply.AsIntSlice()
			if err != nil {
				return err
			}
			if (r[0] == 1) != (i < 2) {
				return want(false, r)
			}
		}
		return want(len(replies) == 3, len(replies))
	})
}

func parallel(c rueidis.Client) error {
	var admitted atomic.Int64
	var tasks sync.WaitGroup
	for range 50 {
		tasks.Go(func() {
			if r, err := c.Do(ctx, call(c, "RL.SLIDE", "parallel", "30", "3600")).AsIntSlice(); err == nil {
				admitted.Add(r[0])
			}
		})
	}
	tasks.Wait()
	return want(admitted.Load() == 30, admitted.Load())
}

func errorReply(c rueidis.Client) error {
	err := c.Do(ctx, call(c, "RL.SLIDE", "error", "0", "3600")).Error()
	_, typed := rueidis.IsRedisErr(err)
	return want(typed && "ERR "+err.Error() == limitError, err) // rueidis strips "ERR "
}

// cache asks for a missing key's value to be cached, which rlproxy does not offer:
// an error or a nil, at once, and the connection is as good as before.
func cache(c rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err := c.DoCache(ctx, c.B().Get().Key("k").Cache(), time.Minute).Error()
	if _, refused := rueidis.IsRedisErr(err); !refused && !rueidis.IsRedisNil(err) {
		return want(false, err)
	}
	r, err := c.Do(ctx, call(c, "RL.SLIDE", "cache", "3", "3600")).AsIntSlice()
	if err != nil {
		return err
	}
	return want(r[0] == 1, r)
}

func reconnect(c rueidis.Client) error {
	fmt.Println("RESTART")
	var line string
	if _, err := fmt.Scanln(&line); err != nil || line != "OK" {
		return want(false, line)
	}
	var err error
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(50 * time.Millisecond) {
		var r []int64
		if r, err = c.Do(ctx, call(c, "RL.SLIDE", "reconnect", "1", "3600")).AsIntSlice(); err == nil {
			return want(r[0] == 1, r)
		}
	}
	return err
}

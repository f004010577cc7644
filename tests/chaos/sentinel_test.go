package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// sentinelSystem is a master and a replica that sentinels watch over.
type sentinelSystem struct {
	t        *testing.T
	g        *redistest.Guarded
	failover time.Time // of the last one
}

func startSentinels(t *testing.T) *sentinelSystem {
	t.Helper()
	return &sentinelSystem{t: t, g: redistest.StartGuarded(t, redistest.OwnClocks(t))}
}

func (s *sentinelSystem) url() string { return s.g.URL() }

func (s *sentinelSystem) nodes() []*redistest.Server {
	return []*redistest.Server{s.g.Master, s.g.Replica}
}

// named is the address that a sentinel calls the master's.
func named(sentinel *redistest.Server) string {
	reply, err := sentinel.Ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.SentinelName)
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(strings.Trim(reply, "[]"), " ", ":")
}

func (s *sentinelSystem) masters() string {
	for _, sentinel := range s.g.Sentinels {
		if addr := named(sentinel); addr != "" {
			return addr
		}
	}
	return ""
}

// roles are the master and the replica, as the sentinels have it.
func (s *sentinelSystem) roles() (master, replica *redistest.Server) {
	if s.masters() == s.g.Master.Addr {
		return s.g.Master, s.g.Replica
	}
	return s.g.Replica, s.g.Master
}

func (s *sentinelSystem) servers() []*redistest.Server {
	master, _ := s.roles()
	return []*redistest.Server{master}
}

func (s *sentinelSystem) whole() error {
	master, replica := s.roles()
	for _, sentinel := range s.g.Sentinels {
		if named(sentinel) != master.Addr {
			return errors.New("sentinels differ in who is the master")
		}
		for _, question := range []string{"MASTER", "REPLICAS"} {
			reply, err := sentinel.Ask("SENTINEL", question, redistest.SentinelName)
			if err != nil || strings.Contains(reply, "s_down") || strings.Contains(reply, "disconnected") || strings.Contains(reply, "failover_in_progress") {
				return fmt.Errorf("sentinel %s: %s, %w", sentinel.Addr, reply, err)
			}
		}
	}
	info, err := replica.Ask("INFO", "replication")
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("master_port:%d\r", master.Port)) || !strings.Contains(info, "master_link_status:up") {
		return fmt.Errorf("the replica is not in step: %s", info)
	}
	return nil
}

// follow makes a server that was the master a replica of who is it now. Sentinels
// do it as well, after ten seconds.
func (s *sentinelSystem) follow(was *redistest.Server) {
	s.t.Helper()
	if master, _ := s.roles(); master != was {
		was.Follow(master)
	}
}

// deposed waits until the sentinels name another master.
func (s *sentinelSystem) deposed(was *redistest.Server) {
	s.t.Helper()
	proxytest.Eventually(s.t, "the replica to take over", func() bool {
		now := s.masters()
		return now != "" && now != was.Addr
	})
	s.failover = time.Now()
}

// able tells whether sentinels would do another failover by now: they wait for twice
// their failover-timeout, and a little.
func (s *sentinelSystem) able() bool {
	return time.Since(s.failover) > 2*redistest.FailoverTimeout+time.Second
}

func (s *sentinelSystem) faults(rng *rand.Rand, busy func(requests int64)) []fault {
	return []fault{
		{kind: "master killed, its replica takes over", forget: true, takeover: true, able: s.able, do: func() func() {
			master, _ := s.roles()
			master.Kill()
			return func() { s.deposed(master); master.Run(); s.follow(master) }
		}},
		{kind: "master killed, back at once", forget: true, do: func() func() {
			master, _ := s.roles()
			master.Kill()
			master.Run()
			return nil
		}},
		{kind: "master stopped until failover", forget: true, takeover: true, able: s.able, do: func() func() {
			master, _ := s.roles()
			master.Pause()
			return func() { s.deposed(master); master.Resume(); s.follow(master) }
		}},
		{kind: "master stopped for a moment", do: func() func() {
			master, _ := s.roles()
			master.Pause()
			busy(1 + rng.Int64N(100)) // less than what is taken for its end
			master.Resume()
			return nil
		}},
		{kind: "replica killed", do: func() func() {
			_, replica := s.roles()
			replica.Kill()
			replica.Run()
			return nil
		}},
		{kind: "sentinel killed", do: func() func() {
			sentinel := pick(rng, s.g.Sentinels)
			sentinel.Kill()
			return sentinel.Run
		}},
		// The old master answers until it is told: Redis forgets, unlike in a cluster.
		{kind: "failover asked of a sentinel", forget: true, takeover: true, able: s.able, do: func() func() {
			master, _ := s.roles()
			proxytest.Eventually(s.t, "a sentinel to agree", func() bool {
				_, err := pick(rng, s.g.Sentinels).Ask("SENTINEL", "FAILOVER", redistest.SentinelName)
				return err == nil
			})
			s.deposed(master)
			if rng.IntN(2) == 0 {
				return nil
			}
			return func() { s.follow(master) }
		}},
	}
}

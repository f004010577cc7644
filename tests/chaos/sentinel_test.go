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

// sentinelSystem is a master and a replica, monitored by sentinels.
type sentinelSystem struct {
	t        *testing.T
	g        *redistest.Guarded
	failover time.Time // time of the last failover
}

func startSentinels(t *testing.T) *sentinelSystem {
	t.Helper()
	return &sentinelSystem{t: t, g: redistest.StartGuarded(t, redistest.OwnClocks(t))}
}

func (s *sentinelSystem) url() string { return s.g.URL() }

func (s *sentinelSystem) nodes() []*redistest.Server {
	return []*redistest.Server{s.g.Master, s.g.Replica}
}

// named returns the address of the master, as a sentinel names it.
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

// roles returns the master and the replica, as the sentinels name them.
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
			return errors.New("the sentinels disagree on the master")
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
		return fmt.Errorf("the replica is not in sync: %s", info)
	}
	return nil
}

// follow makes a former master a replica of the current one. Sentinels do so as well, but
// only after ten seconds.
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

// able reports whether sentinels would start another failover now. They wait for a little
// more than twice their failover-timeout.
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
			busy(1 + rng.Int64N(100)) // takes less than the time after which the master counts as down
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
		// The old master answers until it is reconfigured, so that Redis forgets, unlike in a cluster.
		{kind: "failover requested from a sentinel", forget: true, takeover: true, able: s.able, do: func() func() {
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

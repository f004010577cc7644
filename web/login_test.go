package web

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/acl"
)

func TestUsersLogInWithTheirPasswords(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "default on >hush ~* +@all", "shop on >secret ~shop:* +@ratelimit", "gone off >secret +@all")}, NoNodes, nil)
	for user, want := range map[string]int{
		"default:hush": 200, ":hush": 200, "shop:secret": 403, "shop:hush": 401, "gone:secret": 401, "none:": 401, ":": 401,
	} {
		code, _ := s.get(t, "/metrics", user)
		require.Equal(t, want, code, user)
	}
	require.EqualValues(t, 4, s.refused.Load())
	s.SetRules(Access{ACL: users(t, "default on >hush ~* +@all")})
	code, _ := s.get(t, "/metrics", "shop:secret")
	require.Equal(t, http.StatusUnauthorized, code, "a user who was removed")
}

// The answer to a wrong password takes a second. While some of them are pending, no other
// password from the same address is checked, but /healthz is still answered.
func TestGuessingPasswordsIsSlow(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "default on >hush ~* +@all")}, NoNodes, nil)
	began := time.Now()
	codes := make(chan int, 40)
	var all sync.WaitGroup
	for range cap(codes) {
		all.Go(func() {
			code, _ := s.get(t, "/metrics", "default:wrong")
			codes <- code
		})
	}
	require.Eventually(t, func() bool { return s.logins.Busy("127.0.0.1") }, 20*time.Second, time.Millisecond)
	code, _ := s.get(t, "/metrics", "default:hush")
	require.Equal(t, http.StatusTooManyRequests, code)
	code, _ = s.get(t, "/healthz", "")
	require.Equal(t, http.StatusOK, code)
	all.Wait()
	require.GreaterOrEqual(t, time.Since(began), s.logins.Delay)
	close(codes)
	count := make(map[int]int)
	for code := range codes {
		count[code]++
	}
	require.Equal(t, cap(codes), count[401]+count[429])
	guesses := int(time.Since(began)/s.logins.Delay) * 2 * acl.MaxDelayedEach // some may begin when others end
	require.LessOrEqual(t, count[401], guesses, "guesses in %v", time.Since(began))
	require.EqualValues(t, count[401], s.refused.Load(), "each one is counted")
	code, _ = s.get(t, "/metrics", "default:hush")
	require.Equal(t, http.StatusOK, code)
}

// Wrong passwords delay no connection of the same address that has logged in, and comes with no other one.
func TestGuessesDelayNoConnectionThatHasLoggedIn(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t, "default on >hush ~* +@all")}, NoNodes, nil)
	kept := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer kept.CloseIdleConnections()
	get := func(password string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.addr+"/metrics", nil)
		require.NoError(t, err)
		r.SetBasicAuth("default", password)
		answer, err := kept.Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, answer.Body) // or the connection would not be used again
		require.NoError(t, errors.Join(err, answer.Body.Close()))
		return answer.StatusCode
	}
	require.Equal(t, http.StatusOK, get("hush"))
	s.logins.Delay = time.Hour // until the server is shut down
	for range acl.MaxDelayedEach {
		go s.logins.Login(s.rules.Load().ACL, "127.0.0.1", "default", "guess", false, func() {})
	}
	require.Eventually(t, func() bool { return s.logins.Busy("127.0.0.1") }, 20*time.Second, time.Millisecond)
	require.Equal(t, http.StatusOK, get("hush"))
	require.Equal(t, http.StatusTooManyRequests, get("guess"))
	require.Equal(t, http.StatusTooManyRequests, get("hush"), "the connection may be that of a proxy, and the guess another client's")
	code, _ := s.get(t, "/metrics", "default:hush")
	require.Equal(t, http.StatusTooManyRequests, code, "another connection")
}

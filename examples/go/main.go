// At most 5 requests per 10 seconds from one address.
//
//	go run .          # then: curl -i http://127.0.0.1:8080/
//
// RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens
// when the limit cannot be checked: OPEN serves the request, CLOSED refuses it. rlproxy
// applies it when its Redis is away; this program does when rlproxy is.
// RateLimit and RateLimit-Policy are those of draft-ietf-httpapi-ratelimit-headers-11.
package main

import (
	"cmp"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	limit  = 5
	window = 10 // seconds
)

var fail = cmp.Or(os.Getenv("FAIL"), "OPEN")

// limited wraps a handler.
func limited(rl *redis.Client, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		reply, err := rl.Do(r.Context(), "RL.SLIDE", "ip:"+host, limit, window, "FAIL", fail).Int64Slice()
		switch {
		case err != nil && fail == "OPEN":
			next.ServeHTTP(w, r)
			return
		case err != nil:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		denied, remaining := reply[0] == 0, reply[2]
		wait := strconv.FormatInt((reply[3]+999)/1000, 10) // seconds, when denied
		w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=%d`, limit, window))
		if remaining >= 0 { // -1: rlproxy could not ask its Redis
			item := fmt.Sprintf(`"default";r=%d`, remaining)
			if denied {
				item += ";t=" + wait
			}
			w.Header().Set("RateLimit", item)
			w.Header().Set("X-RateLimit-Limit", strconv.FormatInt(reply[1], 10))
			w.Header().Set("X-RateLimit-Remaining", strconv.FormatInt(remaining, 10))
		}
		if denied {
			w.Header().Set("Retry-After", wait)
			w.Header().Set("X-RateLimit-Reset", wait)
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func main() {
	rl := redis.NewClient(&redis.Options{
		Addr:                  cmp.Or(os.Getenv("RLPROXY"), "127.0.0.1:6380"),
		DialTimeout:           250 * time.Millisecond,
		DialerRetries:         1,
		ReadTimeout:           250 * time.Millisecond,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1, // a request that may have been charged is not sent again
	})
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello\n")
	})
	server := http.Server{
		Addr:              "127.0.0.1:" + cmp.Or(os.Getenv("PORT"), "8080"),
		Handler:           limited(rl, hello),
		ReadHeaderTimeout: 5 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}

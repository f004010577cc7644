// At most 5 requests per 10 seconds from one address.
//
//	go run .          # then: curl -i http://127.0.0.1:8080/
//
// RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens
// when the limit cannot be checked: OPEN serves the request, CLOSED refuses it. rlproxy
// applies it when its Redis is away; we do when rlproxy itself is.
// RateLimit-* headers are in seconds, as in draft-ietf-httpapi-ratelimit-headers-06.
package main

import (
	"cmp"
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
	window = "10s"
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
		allowed, limit, remaining, retryAfter, resetAfter := reply[0], reply[1], reply[2], reply[3], reply[4]
		if remaining >= 0 { // -1: rlproxy could not ask its Redis
			w.Header().Set("RateLimit-Limit", strconv.FormatInt(limit, 10))
			w.Header().Set("RateLimit-Remaining", strconv.FormatInt(remaining, 10))
			w.Header().Set("RateLimit-Reset", seconds(resetAfter))
		}
		if allowed == 0 {
			w.Header().Set("Retry-After", seconds(retryAfter))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// seconds rounds milliseconds up.
func seconds(ms int64) string {
	return strconv.FormatInt((ms+999)/1000, 10)
}

func main() {
	rl := redis.NewClient(&redis.Options{
		Addr:                  cmp.Or(os.Getenv("RLPROXY"), "127.0.0.1:6380"),
		DialTimeout:           250 * time.Millisecond,
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

// Limits by policy for net/http. rlproxy knows the limits, and says which headers to send.
//
//	rlproxy ../policies.conf
//	go run ./policy          # then: curl -i http://127.0.0.1:8080/
//
// RLPROXY names rlproxy's host:port, PORT the port to listen on. FAIL says what happens when rlproxy does not answer
// within 250 ms, or has no such policy: OPEN serves the request, CLOSED refuses it. When only the Redis of rlproxy is
// away, the policy's FAIL decides.
package main

import (
	"cmp"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

var fail = cmp.Or(os.Getenv("FAIL"), "OPEN")

// limited limits a handler by a policy. key returns what is counted in a request.
func limited(rl *redis.Client, policy string, key func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply, err := rl.Do(r.Context(), "RL.CHECK", policy, key(r), "DETAILS").Result()
		check, ok := reply.(map[any]any)
		if err != nil || !ok {
			log.Printf("no limit: %v", err)
			if fail != "OPEN" {
				http.Error(w, "try again later", http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		headers, _ := check["headers"].(map[any]any)
		for name, value := range headers {
			w.Header().Set(name.(string), value.(string))
		}
		if check["allowed"] == int64(0) {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// address is the client's address. Behind a gateway, take it from what the gateway says.
func address(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

func main() {
	rl := redis.NewClient(&redis.Options{
		Addr:                  cmp.Or(os.Getenv("RLPROXY"), "127.0.0.1:6380"),
		Protocol:              3, // RL.CHECK with DETAILS is then a map
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
		Handler:           limited(rl, "hello", address, hello),
		ReadHeaderTimeout: 5 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}

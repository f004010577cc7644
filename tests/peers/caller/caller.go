// Package caller is what the adapters of Go libraries share. It is a module of its own, so
// that each adapter depends on its library and not on rlproxy.
package caller

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Ask decides one request about a key with a limit in a window in ms. The time to wait after
// a denial is rounded up to whole ms.
type Ask func(key string, limit, window, cost int) (allowed bool, retryAfter time.Duration, err error)

// Main runs an adapter as its first argument says. With ask, it answers each line of key, limit,
// window in ms and cost. With load, workers, keys, limit and window in ms, it asks about random
// keys for as many seconds as each line says. connect returns an Ask for each worker.
func Main(connect func(workers int) []Ask) {
	if os.Args[1] != "load" {
		answer(connect(1)[0])
		return
	}
	asks := connect(number(2))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		seconds, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			log.Fatal(err)
		}
		load(asks, number(3), number(4), number(5), time.Duration(seconds*float64(time.Second)))
	}
}

func number(i int) int {
	n, err := strconv.Atoi(os.Args[i])
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func answer(ask Ask) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var key string
		var limit, window, cost int
		if _, err := fmt.Sscan(lines.Text(), &key, &limit, &window, &cost); err != nil {
			log.Fatal(err)
		}
		allowed, retryAfter, err := ask(key, limit, window, cost)
		switch {
		case err != nil:
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		case allowed:
			fmt.Println("1 0")
		default:
			fmt.Println("0", (retryAfter + time.Millisecond - 1).Milliseconds())
		}
	}
}

// load has every worker ask as fast as it is answered, and writes what came of it.
func load(asks []Ask, keys, limit, window int, long time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var took []time.Duration
	allowed, errors := 0, 0
	began := time.Now()
	end := began.Add(long)
	for _, ask := range asks {
		wg.Go(func() {
			var mine []time.Duration
			yes, wrong := 0, 0
			for at := time.Now(); at.Before(end); {
				ok, _, err := ask(fmt.Sprintf("key:%012d", rand.IntN(keys)), limit, window, 1)
				if err != nil {
					wrong++
				} else if ok {
					yes++
				}
				now := time.Now()
				mine = append(mine, now.Sub(at))
				at = now
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			allowed += yes
			errors += wrong
		})
	}
	wg.Wait()
	elapsed := time.Since(began).Seconds()
	slices.Sort(took)
	us := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1e3 }
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{ // a reader that is gone ends the process
		"decisions": len(took), "allowed": allowed, "errors": errors, "seconds": elapsed, "p50_us": us(0.5), "p99_us": us(0.99),
	})
}

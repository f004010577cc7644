package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// ahead says where a peer does better than the rlproxy of its own kind, and why.
func (p *page) ahead(b *strings.Builder) {
	b.WriteString(`## Where a peer is ahead

Each limiter beside rlproxy's RL.SLIDE of the same kind, on Redis or with the state in its own process: the figures that are better by more than 5 percent, and why. A limiter that keeps
*counts* has a number or two for a key instead of the time of each admission: less to store and to compute, but it does not know what a trailing window contains.

`)
	onRedis, embedded := p.row("rlproxy"), p.row("rlproxy embedded")
	for _, r := range p.rows {
		if strings.HasPrefix(r.name, "rlproxy") {
			continue
		}
		ours, ourName := onRedis, "rlproxy on Redis"
		if !r.hangs.known {
			ours, ourName = embedded, "rlproxy embedded"
		}
		var better, why []string
		for _, c := range slices.Concat(speed, state) {
			if slices.Contains([]string{"server", "client", "worst window"}, c.title) {
				continue // how the CPU is divided, and what is right or wrong, not better or worse
			}
			theirs, own := c.value(r), c.value(ours)
			if math.IsNaN(theirs) || math.IsNaN(own) || !c.ahead(theirs, own) {
				continue
			}
			better = append(better, fmt.Sprintf("%s %s (%s)", c.title, c.text(r), c.text(ours)))
			if reason := p.reason(r, c.title); reason != "" && !slices.Contains(why, reason) {
				why = append(why, reason)
			}
		}
		if len(better) == 0 {
			fmt.Fprintf(b, "- **%s** is ahead of %s in nothing that this page measures.\n", r.name, ourName)
			continue
		}
		fmt.Fprintf(b, "- **%s**, beside %s in brackets: %s. %s\n", r.name, ourName, strings.Join(better, ", "), strings.Join(why, " "))
	}
	b.WriteString(`
What the libraries and the script have in common is that nothing stands between the caller and Redis. Where one application in one language asks one Redis, its keys are many
and none is hot, and a boundary now and then does not matter, they are the simpler choice. rlproxy's process pays off with several languages, several nodes, hot keys, pipelines,
limits that must never be exceeded, and a store that may stop.

`)
}

func (c column) ahead(theirs, own float64) bool {
	if c.more {
		return theirs > 1.05*own
	}
	return own > 1.05*theirs
}

func (p *page) row(name string) *row {
	return p.rows[slices.IndexFunc(p.rows, func(r *row) bool { return r.name == name })]
}

// reason says why a limiter can be ahead in a column.
func (p *page) reason(r *row, title string) string {
	counts := !strings.HasPrefix(p.about[r.name].Algorithm, "sliding log")
	switch title {
	case "bytes a key", "at its limit", "Redis":
		if counts {
			return "It keeps counts."
		}
		if title == "bytes a key" {
			return "Its record of a first admission is smaller; rlproxy's also contains the limits and windows."
		}
		if title == "Redis" {
			return "Its script does less than rlproxy's function, which also takes several windows, shards of a key and reservations."
		}
	case "decisions/s", "-P 16", "p50 us", "p99 us", "CPU us":
		if !r.hangs.known {
			return "Its request needs one number of a map, and its answer five short integers."
		}
		if r.single.Server == 0 {
			return "Its caller asks Redis itself, which is one hop and one process less than with rlproxy."
		}
	}
	return ""
}

// how says how the figures came about.
func (p *page) how(b *strings.Builder) {
	fmt.Fprintf(b, `## How it was measured

    make bench-peers        all of it, in some minutes; the first time it builds the limiters, which takes ten minutes more
    scripts/install-peers.sh; go run ./tests/peers/bench -only 'rlproxy|redis_rate'

Each load runs for %s after a warm-up of a third of that, or twice that for the libraries, once in each of %d rounds; the round with the median rate counts. %s keys, chosen at random; Redis is empty at the start of each load. CPU comes from
/proc with all children, and from Redis's INFO cpu. The loads of servers that speak RESP are redis-benchmark's; the others' run in the program that calls them. Where two processes share the
clients, their p50 and p99 are the mean of both. Everything listens on 127.0.0.1. Redis is that of Debian 12, and the newer servers are packages of
Debian 13 and of the next release (scripts/install-servers.sh).

%s

| limiter | version | how it runs |
|---|---|---|
`, p.long, p.rounds, number(keys), strings.Join(p.machine, "; "))
	for _, r := range p.rows {
		version := p.version[r.name]
		if version == "" {
			version = "of this source"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", r.name, version, p.about[r.name].Setting)
	}
}

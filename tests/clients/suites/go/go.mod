module github.com/rlproxy/rlproxy/tests/clients/suites/go

go 1.26

require github.com/ulule/limiter/v3 v3.11.2

require (
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/redis/go-redis/v9 v9.0.4 // indirect
)

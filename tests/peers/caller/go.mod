module github.com/rlproxy/rlproxy/tests/peers/caller

go 1.26

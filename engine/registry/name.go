package registry

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
)

// Name returns a name by which operators can find this process, another one at each call: host:pid:random digits.
func Name() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	var digits [4]byte
	_, _ = rand.Read(digits[:]) // it never fails
	return strings.ReplaceAll(host[:min(len(host), 64)], " ",
		"-") + ":" + strconv.Itoa(os.Getpid()) + ":" + hex.EncodeToString(digits[:])
}

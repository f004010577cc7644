package machine

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// files returns a file system with the given files and contents.
func files(pairs ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return m
}

func TestLimitIsTheLeastOfAllGroups(t *testing.T) {
	for name, c := range map[string]struct {
		root fstest.MapFS
		want int64
	}{
		"no Linux":  {files(), 0},
		"no limit":  {files("proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "max\n"), 0},
		"container": {files("proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "536870912\n"), 512 << 20},
		"unit in a slice": {files("proc/self/cgroup", "0::/system.slice/rlproxy.service\n",
			"sys/fs/cgroup/system.slice/rlproxy.service/memory.max", "max\n", "sys/fs/cgroup/system.slice/memory.max", "1000\n"), 1000},
		"MemoryHigh": {files("proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/memory.max", "2000\n", "sys/fs/cgroup/a/memory.high", "1500\n"), 1500},
		"version 1": {files("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/f00\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n", "sys/fs/cgroup/memory/docker/f00/memory.limit_in_bytes", "3000\n"), 3000},
		"version 1, the container's group is mounted": {files("proc/self/cgroup", "4:memory:/docker/f00\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "4000\n"), 4000},
		"nonsense": {files("proc/self/cgroup", "\n:\n0::../..\n", "sys/fs/cgroup/memory.max", "much\n"), 0},
	} {
		require.Equal(t, c.want, ContainerMemory(c.root), name)
	}
}

func TestMemoryOfTheMachine(t *testing.T) {
	require.EqualValues(t, 24683184<<10, Memory(files("proc/meminfo", "MemTotal:       24683184 kB\nMemFree: 1 kB\n")))
	require.Zero(t, Memory(files("proc/meminfo", "")))
	require.Zero(t, Memory(files()))
	require.GreaterOrEqual(t, ContainerMemory(os.DirFS("/")), int64(0))
}

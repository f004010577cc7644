package config

const memory = 1 << 30 // the default of maxmemory

// read loads text as a file named test.conf.
func read(content string) (*Config, error) {
	r := reader{config: newConfig(memory), given: make(map[string]bool)}
	return r.config, r.readText("test.conf", content)
}

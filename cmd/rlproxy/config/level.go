package config

import (
	"log/slog"
	"slices"
)

// levelNames are Redis's log levels, the most verbose first. levels are slog's, in
// the same order.
var (
	levelNames = []string{"debug", "verbose", "notice", "warning"}
	levels     = []slog.Level{slog.LevelDebug, slog.LevelDebug + 2, slog.LevelInfo, slog.LevelWarn}
)

// Level returns the configured level as slog's.
func (c *Config) Level() slog.Level { return levels[slices.Index(levelNames, c.LogLevel)] }

// LevelName returns Redis's name of a level, or "error", which Redis does not have.
func LevelName(level slog.Level) string {
	if i := slices.Index(levels, level); i >= 0 {
		return levelNames[i]
	}
	return "error"
}

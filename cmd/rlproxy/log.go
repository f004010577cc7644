package main

import (
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/rlproxy/rlproxy/engine/decisionlog"
)

// levelNames are Redis's log levels, the most verbose first. levels are slog's, in
// the same order.
var (
	levelNames = []string{"debug", "verbose", "notice", "warning"}
	levels     = []slog.Level{slog.LevelDebug, slog.LevelDebug + 2, slog.LevelInfo, slog.LevelWarn}
)

// openLog returns the logger that the configuration asks for, which drops what is
// below level and waits for nobody, and a function that ends it and closes the log file, if
// there is one.
func openLog(c *config, level slog.Leveler, stdout io.Writer) (*slog.Logger, func() error, error) {
	w, done := stdout, func() error { return nil }
	if c.logFile != "" {
		f, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, err
		}
		w, done = f, f.Close
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: nameLevel}
	q := newLogQueue(w, options)
	return slog.New(slog.NewTextHandler(q, options)), func() error { q.close(); return done() }, nil
}

// decisions returns how decisions are logged.
func (c *config) decisions() decisionlog.Settings {
	return decisionlog.Settings{Hash: c.decisionKeys == "hash", Sample: c.decisionSample}
}

// level returns the configured level as slog's.
func (c *config) level() slog.Level { return levels[slices.Index(levelNames, c.logLevel)] }

// nameLevel replaces slog's name of a level with Redis's, which has none for errors.
func nameLevel(groups []string, a slog.Attr) slog.Attr {
	if level, ok := a.Value.Any().(slog.Level); ok && len(groups) == 0 && a.Key == slog.LevelKey {
		name := "error"
		if i := slices.Index(levels, level); i >= 0 {
			name = levelNames[i]
		}
		a.Value = slog.StringValue(name)
	}
	return a
}

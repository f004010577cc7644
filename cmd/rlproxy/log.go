package main

import (
	"bytes"
	"io"
	"log/slog"
	"time"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/internal/lines"
	"github.com/rlproxy/rlproxy/internal/machine"
)

// closeLogWithin is how long the end of the process waits for the log.
const closeLogWithin = time.Second

// openLog returns the logger that the configuration asks for, which drops what is
// below level and waits for nobody, and a function that ends it and closes the log file, if
// there is one.
func openLog(c *config.Config, level slog.Leveler, stdout io.Writer) (*slog.Logger, func() error, error) {
	w, done := stdout, func() error { return nil }
	f, err := machine.OpenAppend("logfile", c.LogFile)
	if err != nil {
		return nil, nil, err
	}
	if f != nil {
		w, done = f, f.Close
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: nameLevel}
	q := lines.Open(w, lines.Hooks{Missing: func(n int64) []byte { return missing(n, options) }})
	return slog.New(slog.NewTextHandler(q, options)), func() error {
		select {
		case <-q.Finish():
		case <-time.After(closeLogWithin):
		}
		return done()
	}, nil
}

// missing returns the line of the log that says that it lacks n lines.
func missing(n int64, options *slog.HandlerOptions) []byte {
	var line bytes.Buffer
	slog.New(slog.NewTextHandler(&line, options)).Warn(
		"the log did not take some lines, and they were dropped", "lines", n)
	return line.Bytes()
}

// logging returns how decisions are logged.
func logging(c *config.Config) decisionlog.Settings {
	return decisionlog.Settings{Hash: c.DecisionKeys == "hash", Sample: c.DecisionSample}
}

// nameLevel replaces slog's name of a level with Redis's, which has none for errors.
func nameLevel(groups []string, a slog.Attr) slog.Attr {
	if level, ok := a.Value.Any().(slog.Level); ok && len(groups) == 0 && a.Key == slog.LevelKey {
		a.Value = slog.StringValue(config.LevelName(level))
	}
	return a
}

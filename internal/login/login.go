// Package login has the user and the password with which rlproxy logs in to other servers.
package login

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// Login is a user and its password.
type Login struct {
	User         string // empty: the default user
	Password     string
	PasswordFile string // a file that has the password in place of Password; empty: none
}

// maxPassword is the most bytes of a file with a password.
const maxPassword = 64 << 10

// Conflicts reports whether there are two passwords, or a user without one.
func (l Login) Conflicts() bool {
	return l.Password != "" && l.PasswordFile != "" || l.User != "" && l.Password == "" && l.PasswordFile == ""
}

// Read returns the user and the password as they are now. It reads the file anew. Line breaks at its end do not count.
func (l Login) Read() (user, password string, err error) {
	if l.PasswordFile == "" {
		return l.User, l.Password, nil
	}
	f, err := os.Open(l.PasswordFile)
	if err != nil {
		return "", "", fmt.Errorf("can't read a password: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	password = strings.TrimRight(string(text), "\r\n")
	switch {
	case err != nil:
		return "", "", fmt.Errorf("can't read a password: %w", err)
	case password == "" || len(text) > maxPassword:
		return "", "", fmt.Errorf("can't read a password: %s must have 1 to %d bytes", l.PasswordFile, maxPassword)
	}
	return l.User, password, nil
}

// Hide returns a URL without its password, to be shown. Whatever is no URL by HTTP is returned as it is.
func Hide(name string) string {
	if u, err := url.Parse(name); err == nil && strings.HasPrefix(u.Scheme, "http") {
		return u.Redacted()
	}
	return name
}

package replyscan

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// Valid replies pass in fragments of any size.
func TestScannerRefusesRepliesThatAnnounceTooMuch(t *testing.T) {
	good := "+OK\r\n-ERR x\r\n:1\r\n$-1\r\n$0\r\n\r\n$5\r\na\nb\r\n\r\n*-1\r\n*0\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n_\r\n#t\r\n,1.5\r\n(12\r\n=5\r\ntxt:x\r\n" +
		"%1\r\n+a\r\n*2\r\n:1\r\n:2\r\n~1\r\n+a\r\n>2\r\n+message\r\n+x\r\n*1\r\n|1\r\n+k\r\n+v\r\n:1\r\n+" + strings.Repeat("long ", 100) + "\r\n"
	for _, limits := range []Limits{Parsed, Passed} {
		whole, pieces := Scanner{Limits: limits}, Scanner{Limits: limits}
		require.NoError(t, fed(&whole, good))
		require.Empty(t, whole.left)
		require.Zero(t, whole.skip)
		buf := make([]byte, 7)
		for r := iotest.OneByteReader(strings.NewReader(good)); ; {
			n, err := r.Read(buf)
			if err != nil {
				break
			}
			require.NoError(t, fed(&pieces, string(buf[:n])))
		}
		require.Empty(t, pieces.left)
		require.Zero(t, pieces.skip)
	}
	for _, bad := range []string{
		"\r\n", "\n", "$x\r\n", "$-2\r\n", "*-7\r\n", "$\r\n", "*999999999999999999999\r\n", "*?\r\n", strings.Repeat("*1\r\n", 70_000),
		"*1\r\n%4294967297\r\n", "$4294967297\r\n", "$" + strings.Repeat("0", 100) + "1\r\n",
	} {
		for _, limits := range []Limits{Parsed, Passed} {
			s := Scanner{Limits: limits}
			require.NoError(t, fed(&s, "+OK\r\n"))
			require.ErrorIs(t, fed(&s, bad), ErrMalformed, bad)
		}
	}
	for _, large := range []string{"*1000000\r\n", "$100000000\r\n", strings.Repeat("*1\r\n", 20_000)} {
		parsed, passed := Scanner{Limits: Parsed}, Scanner{Limits: Passed}
		require.ErrorIs(t, fed(&parsed, large), ErrMalformed)
		require.ErrorIs(t, fed(&passed, large), ErrMalformed, "the reply to the greeting is parsed")
		passed = Scanner{Limits: Passed}
		require.NoError(t, fed(&passed, "%1\r\n+proto\r\n:3\r\n"+large))
	}
}

// A script's reply of 8,000 levels passes. Nodes reply with as many to a table that contains itself.
func TestScannerPassesTheDeepestReplyOfAScript(t *testing.T) {
	reply := strings.Repeat("*1\r\n", 7995) + "-ERR reached lua stack limit\r\n"
	s := Scanner{Limits: Passed}
	require.NoError(t, fed(&s, "+OK\r\n"+reply+"+OK\r\n"))
	require.Empty(t, s.left)
}

// Push messages are removed, in fragments of any size, whether they come before or after a reply.
func TestScannerRemovesPushMessages(t *testing.T) {
	const replies = ">2\r\n+a\r\n$1\r\n>\r\n+OK\r\n>1\r\n>1\r\n>0\r\n$3\r\n>1\r\r\n>0\r\n|1\r\n+k\r\n>1\r\n+v\r\n:1\r\n>1\r\n+x\r\n"
	for size := 1; size <= len(replies); size++ {
		s, got := Scanner{Limits: Passed}, ""
		for at := 0; at < len(replies); at += size {
			p := []byte(replies[at:min(at+size, len(replies))])
			kept, err := s.Feed(p)
			require.NoError(t, err)
			got += string(p[:kept])
		}
		require.Equal(t, "+OK\r\n$3\r\n>1\r\r\n|1\r\n+k\r\n>1\r\n+v\r\n:1\r\n", got)
	}
}

func TestWhole(t *testing.T) {
	for _, reply := range []string{"+OK\r\n", "$1\r\nx\r\n", "$-1\r\n", "*2\r\n:1\r\n*1\r\n$0\r\n\r\n", "%1\r\n+a\r\n_\r\n"} {
		require.True(t, Whole([]byte(reply)), reply)
		for n := range reply {
			require.False(t, Whole([]byte(reply[:n])), reply[:n])
		}
	}
	require.False(t, Whole([]byte("|1\r\n+a\r\n+b\r\n")), "an attribute without its reply")
}

// fed feeds a scanner and returns its error.
func fed(s *Scanner, replies string) error {
	_, err := s.Feed([]byte(replies))
	return err
}

// Fragments make no difference, and what is left are replies without push messages.
func FuzzScanner(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\nx\r\n:1\r\n"), 3)
	f.Add([]byte("*1\r\n|1\r\n+k\r\n+v\r\n:1\r\n"), 5)
	f.Add([]byte("|1\r\n+k\r\n*2\r\n+v\r\n:90\r\n$1\r\nx\r\n"), 9)
	f.Add([]byte("+OK\r\n>2\r\n+a\r\n$1\r\nx\r\n+OK\r\n"), 14)
	f.Add([]byte(strings.Repeat("*1\r\n", 20)+"-ERR reached lua stack limit\r\n"), 40)
	f.Add([]byte("+OK\n"), 3)
	f.Fuzz(func(t *testing.T, replies []byte, cut int) {
		cut = min(max(cut, 0), len(replies))
		for _, limits := range []Limits{Parsed, Passed} {
			whole, pieces, again := Scanner{Limits: limits}, Scanner{Limits: limits}, Scanner{Limits: limits}
			at := bytes.Clone(replies)
			n, one := whole.Feed(at)
			left := at[:n]
			before, after := bytes.Clone(replies[:cut]), bytes.Clone(replies[cut:])
			n, two := pieces.Feed(before)
			before = before[:n]
			if two == nil {
				n, two = pieces.Feed(after)
				before = append(before, after[:n]...)
			}
			require.Equal(t, one, two)
			require.LessOrEqual(t, len(whole.left), limits.depth+1)
			if one != nil {
				continue
			}
			require.Equal(t, string(left), string(before))
			require.Equal(t, whole, pieces)
			n, err := again.Feed(left)
			require.NoError(t, err)
			require.Equal(t, len(left), n)
		}
	})
}

package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Page is a window of a browser. Its methods fail the test when the
// browser cannot do what they ask.
type Page struct {
	t   testing.TB
	ctx context.Context
}

// run runs one action and returns what it found.
func run[T any](p *Page, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	found, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatalf("browser: %v at %s", err, p.where())
	}
	return found
}

// where is the address of the page, for messages.
func (p *Page) where() string {
	location, err := chromedp.Run(p.ctx, chromedp.Location())
	if err != nil {
		return err.Error()
	}
	return location
}

// Go opens an address and returns the status of the answer.
func (p *Page) Go(address string) int64 {
	p.t.Helper()
	return p.navigate(chromedp.Navigate(address))
}

// Press clicks on the element and waits for the page that this opens. It
// returns the status of the answer.
func (p *Page) Press(selector string) int64 {
	p.t.Helper()
	return p.navigate(chromedp.Click(chromedp.CSS(selector)))
}

// PressHere clicks on an element that opens no page.
func (p *Page) PressHere(selector string) {
	p.t.Helper()
	run(p, chromedp.Click(chromedp.CSS(selector)))
}

func (p *Page) navigate(action chromedp.Action[chromedp.Void]) int64 {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	response, err := chromedp.RunResponse(ctx, action)
	if err != nil {
		p.t.Fatalf("browser: %v at %s", err, p.where())
	}
	return response.Status
}

// Type replaces the text of a field.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	Evaluate[chromedp.Void](p, fmt.Sprintf(`document.querySelector(%q).value = ""`, selector))
	run(p, chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Keys presses keys on the keyboard, one after the other, wherever the
// focus is.
func (p *Page) Keys(keys string) {
	p.t.Helper()
	run(p, chromedp.KeyEvent(keys))
}

// Enter presses the enter key and waits for the page that this opens. It
// returns the status of the answer.
func (p *Page) Enter() int64 {
	p.t.Helper()
	return p.navigate(chromedp.KeyEvent(kb.Enter))
}

// Text returns the text of the first element that matches.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	return strings.TrimSpace(run(p, chromedp.Text(chromedp.CSS(selector))))
}

// Path returns the path of the page.
func (p *Page) Path() string {
	p.t.Helper()
	return Evaluate[string](p, "location.pathname")
}

// Evaluate evaluates a JavaScript expression in the page, also where the
// page's own scripts are turned off.
func Evaluate[T any](p *Page, expression string) T {
	p.t.Helper()
	return run(p, chromedp.Evaluate[T](expression))
}

// EvaluateAsync evaluates a JavaScript expression in the page and waits for
// the promise that it returns.
func EvaluateAsync[T any](p *Page, expression string) T {
	p.t.Helper()
	return run(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Await waits until an element that matches contains some words.
func (p *Page) Await(selector, words string) {
	p.t.Helper()
	condition := fmt.Sprintf("!!document.querySelector(%q)?.textContent.includes(%q)", selector, words)
	deadline := time.Now().Add(patience)
	for {
		// An error is a page that is just being loaded.
		if met, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](condition)); err == nil && met {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("no %q in %s at %s", words, selector, p.where())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Shows reports whether the page has a text.
func (p *Page) Shows(words string) bool {
	p.t.Helper()
	return strings.Contains(p.Text("body"), words)
}

// Cookie returns a cookie of the page by its name, nil if there is none.
func (p *Page) Cookie(name string) *network.Cookie {
	p.t.Helper()
	answer, err := chromedp.Call(p.ctx, network.GetCookies, network.GetCookiesParams{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range answer.Cookies {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Screenshot writes a picture of the whole page.
func (p *Page) Screenshot(path string) {
	p.t.Helper()
	picture := run(p, chromedp.FullScreenshot(100))
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, picture, 0o644))
	if err != nil {
		p.t.Fatal(err)
	}
}

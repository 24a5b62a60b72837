// Package browsertest drives a real Chromium for tests of the web pages,
// with JavaScript and without, and lets axe-core judge them.
//
// The browser is the one of the machine (Debian's package chromium). A
// test fails where there is none: pages that no browser has shown are
// untested.
package browsertest

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// patience bounds every wait for the browser. It is long because test
// machines are slow, and is used up only when something is wrong.
const patience = 60 * time.Second

// Browser is a running Chromium.
type Browser struct {
	t   testing.TB
	ctx context.Context
}

// Start runs a browser with a profile of its own until the test ends.
func Start(t testing.TB) *Browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("no browser (Debian's package chromium has it): %v", err)
	}
	// Without UserDataDir, chromedp waits for the last process of the browser
	// before it removes the profile. One that writes later would fail the test.
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting browser: %v", err)
	}
	return &Browser{t, ctx}
}

// Option changes how a page is shown.
type Option func(ctx context.Context) error

// NoScript turns JavaScript off.
func NoScript(ctx context.Context) error {
	_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	return err
}

// Dark makes the person prefer dark pages.
func Dark(ctx context.Context) error {
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
	})
	return err
}

// Phone makes the window as wide as a phone.
func Phone(ctx context.Context) error { return PhoneOf(390)(ctx) }

// PhoneOf makes the window that of a phone so many pixels wide.
func PhoneOf(width int64) Option {
	return func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: 844, DeviceScaleFactor: 2, Mobile: true,
		})
		return err
	}
}

// Tablet makes the window as wide as a tablet.
func Tablet(ctx context.Context) error { return resize(ctx, 820, 1180) }

// Wide makes the window as wide as a laptop.
func Wide(ctx context.Context) error { return resize(ctx, 1440, 900) }

func resize(ctx context.Context, width, height int64) error {
	_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1,
	})
	return err
}

// Person opens a window with cookies of its own, as of another person or
// on another machine.
func (b *Browser) Person(options ...Option) *Page {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	b.t.Cleanup(cancel)
	p := &Page{b.t, ctx}
	for _, option := range append([]Option{Wide}, options...) {
		if err := option(ctx); err != nil {
			b.t.Fatalf("preparing window: %v", err)
		}
	}
	return p
}

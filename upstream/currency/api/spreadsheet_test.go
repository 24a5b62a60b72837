//go:build long

package api_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// TestSpreadsheet opens CSV in a library that reads what spreadsheets read.
// Numbers are numbers and days are days there, and no cell is a formula.
func TestSpreadsheet(t *testing.T) {
	t.Parallel()
	modules := npmtest.Install(t, "xlsx@0.18.5")
	s := serveWith(t, withParities(t))
	const program = `
const XLSX = require("xlsx");
const book = XLSX.read(require("fs").readFileSync(0, "utf8"), { type: "string", cellDates: true, cellFormula: true });
const sheet = book.Sheets[book.SheetNames[0]];
const cells = Object.entries(sheet).filter(([name]) => name[0] !== "!").map(([, cell]) => cell);
const rows = XLSX.utils.sheet_to_json(sheet, { header: 1 });
console.log(rows.length, cells.filter(cell => cell.f).length, rows[1].map(v => v instanceof Date ? "date" : typeof v).join());`
	for target, want := range map[string]string{
		"/api/history/EUR/USD,XOF?start_date=2026-09-21&end_date=2026-09-26&fill=previous": "7 0 date,number,number,string,string",
		"/api/rates/KYD?symbols=USD": "3 0 date,string,string,number,string",
	} {
		command := exec.CommandContext(t.Context(), "node", "-e", program)
		command.Env = append(os.Environ(), "NODE_PATH="+modules)
		command.Stdin = bytes.NewReader(s.as(t, asCSV, target).body)
		got, err := command.CombinedOutput()
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: got %s (%v), want %s", target, got, err, want)
		}
	}
}

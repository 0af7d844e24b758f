//! What the ledgers of dead sessions say was made.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;

use super::{NotSwept, Owing, records::SweepRecords, sweeper::Sweeper};
use crate::{
    error::Result,
    lifecycle::{
        Book, Entry, ReportLine, Standing, Timestamp,
        ledger::{Damage, Ledger, LedgerFile, Row},
        teardown::{Reclaimed, Records as _, not_found, reclaim_entry},
    },
    provider::Provider,
};

/// What became of one open entry of a dead ledger.
enum Swept {
    Left(NotSwept),
    Entry(Box<Entry>, Option<String>),
}

impl Sweeper {
    pub(super) async fn sweep_ledger(&mut self, file: LedgerFile, until: Timestamp) {
        let path = file.path.display().to_string();
        for damage in &file.damage {
            let reason = match damage {
                // What a killed process leaves behind in any case; nothing was sent that stands only there.
                Damage::TornLastLine => {
                    let reason = "its last line was not written to the end".to_owned();
                    self.report.damage.push(NotSwept { what: path.clone(), reason });
                    continue;
                }
                Damage::UnreadableLine(line) => format!("line {line} cannot be read, and may name something"),
            };
            self.report.leave(&path, reason);
        }
        let book = Book::replay(&file.rows);
        if !self.options.delete {
            for entry in book.entries().filter(|entry| entry.is_open()) {
                self.look_at(entry);
            }
            return;
        }
        let ledger = match Ledger::write_on(file.opened, Arc::clone(&self.options.clock)) {
            Ok(ledger) => ledger,
            Err(error) => return self.report.leave(path, error.to_string()),
        };
        let mut all_closed = file.damage.iter().all(|damage| *damage == Damage::TornLastLine);
        let kinds = book.open_by_kind();
        for (done, (_, ordinals)) in kinds.iter().enumerate() {
            let until = self.share_of_time(until, kinds.len() - done);
            // Side by side, since each may have to wait for as long as a provider hides what is new.
            let entries = ordinals.iter().filter_map(|ordinal| book.get(*ordinal));
            let swept = join_all(entries.map(|entry| self.sweep_entry(entry, &ledger, until))).await;
            for swept in swept {
                match swept {
                    Swept::Left(left) => {
                        all_closed = false;
                        self.report.not_swept.push(left);
                    }
                    Swept::Entry(entry, reason) => {
                        all_closed &= !entry.is_open();
                        self.forget_kept(&entry).await;
                        self.report.result.add(&entry, reason.as_deref());
                    }
                }
            }
        }
        let ended = if all_closed { ledger.remove().await } else { ledger.release().await };
        if let Err(error) = ended {
            self.report.leave(path, error.to_string());
        }
    }

    /// What was kept until a moment that has passed, and is gone now, is kept no longer.
    async fn forget_kept(&mut self, entry: &Entry) {
        for (thing, standing) in &entry.things {
            if matches!(standing, Standing::Gone(_)) {
                self.forget(thing).await;
            }
        }
    }

    fn look_at(&mut self, entry: &Entry) {
        let intent = &entry.intent;
        let age = self.options.clock.now().since(intent.at);
        if entry.things.is_empty() {
            let line = ReportLine::of_intent(intent, Some("perhaps made".into()));
            self.report.owing.push(Owing { line, age });
        }
        for thing in entry.open_things() {
            self.report.owing.push(Owing { line: ReportLine::of_thing(intent, &thing, None), age });
        }
        if let Err(reason) = self.driver_of(entry) {
            self.report.leave(intent, reason);
        }
    }

    fn driver_of(&self, entry: &Entry) -> Result<Arc<dyn Provider>, String> {
        let intent = &entry.intent;
        let provider =
            self.registry.get(&intent.provider).ok_or(format!("{} is not configured", intent.provider))?;
        if provider.account() != intent.account || provider.endpoint() != intent.endpoint {
            return Err(format!("it belongs to account {} at {}", intent.account, intent.endpoint));
        }
        Ok(Arc::clone(provider))
    }

    async fn sweep_entry(&self, entry: &Entry, ledger: &Ledger, until: Timestamp) -> Swept {
        let intent = &entry.intent;
        let left = |reason| Swept::Left(NotSwept { what: intent.to_string(), reason });
        let provider = match self.driver_of(entry) {
            Ok(provider) => provider,
            Err(reason) => return left(reason),
        };
        let reclaimer = self.reclaimer(&provider);
        let records = SweepRecords { ledger, gates: reclaimer.gates.clone(), rows: Mutex::default() };
        let mut reason = None;
        if let Some(kept) =
            self.kept.iter().find(|kept| self.holds(kept) && entry.open_things().contains(&kept.thing))
        {
            // The process died between remembering that it is kept and writing it here.
            let (reason, until) = (kept.reason.clone(), kept.until);
            let _ = records.record(Row::Kept { ordinal: intent.ordinal, reason, until }).await;
        } else {
            match reclaim_entry(&reclaimer, entry, until, &records).await {
                Ok(Reclaimed::All) => {}
                // It cannot be there any more, whoever looks for it.
                Ok(Reclaimed::NotFound) if self.has_expired(intent.expires) => {
                    let _ = records.record(Row::NotMade { ordinal: intent.ordinal }).await;
                }
                Ok(Reclaimed::NotFound) => reason = Some(not_found(intent).to_string()),
                Err(error) => reason = Some(error.to_string()),
            }
        }
        let mut now = entry.clone();
        records.rows.into_inner().unwrap_or_default().iter().for_each(|row| now.apply(row));
        Swept::Entry(Box::new(now), reason)
    }
}

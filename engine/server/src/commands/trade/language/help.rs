//! What can be typed, for `--help` and for `help`.

/// The lines.
pub(in crate::commands::trade) const LINES: &str = "\
buy QUANTITY SYMBOL @ PRICE [OPTION ...]          limit order; sell likewise; gtc without another word
buy QUANTITY SYMBOL market [OPTION ...]           market order: what finds no counterparty expires
buy QUANTITY SYMBOL market-to-limit|protected     at the best price, or as far as the venue protects; the rest rests
buy QUANTITY SYMBOL pegged peg=REFERENCE          follows the book, hidden
quote SYMBOL [account=N] [bids Q@P ...] [asks Q@P ...]   a ladder in the place of your quotes, 10 a side at most
replace ID QUANTITY [@ PRICE] [stop=PRICE] [display=QUANTITY]   new total quantity, executions included
cancel ID                                         cancel one order
cancel all [SYMBOL] [buy|sell]                    cancel your orders
status ID                                         what is left of an order
account N                                         balances and positions of an account of yours
book SYMBOL                                       the ten best levels of both sides
help | quit                                       quit waits for what is pending

Options of an order:
  day | gtc | ioc | fok | gtd=TIME | at-the-open | at-the-close | good-for-auction
                              how long; TIME is 2026-05-02T16:00:00Z or +SECONDS
  post-only [slide]           never takes: rejected where it would trade, or moved a tick away
  hidden                      never shown
  reduce-only                 only makes the account's position smaller
  stop=PRICE                  waits for the trigger to reach it
  trail=DISTANCE              a stop price that follows
  display=QUANTITY[..HIGH]    shows so much at a time, or something between the two
  minimum=QUANTITY | all-or-none
  peg=bid|ask|mid[:OFFSET]    with a limit price or the word pegged
  oco=GROUP                   one of the group cancels the others
  parent=ID                   waits until that order is filled
  self-trade=GROUP:cancel-resting|cancel-incoming|cancel-both|decrement
  account=N                   for whom
  id=TEXT                     a text id of your own

One of each:
  buy 1 BTCUSD @ 50000                          sell 1 BTCUSD market
  buy 1 BTCUSD market-to-limit                  buy 1 BTCUSD protected
  sell 1 BTCUSD market stop=48000               sell 1 BTCUSD @ 47900 stop=48000
  sell 1 BTCUSD market trail=500                sell 10 BTCUSD @ 51000 display=1..2
  buy 1 BTCUSD @ 50000 hidden                   buy 1 BTCUSD pegged peg=mid:0.50
  buy 1 BTCUSD @ 50100 peg=bid                  buy 5 BTCUSD @ 50000 minimum=2
  buy 5 BTCUSD @ 50000 all-or-none              buy 1 BTCUSD @ 50000 post-only slide
  sell 1 BTCUSD @ 52000 reduce-only account=7   buy 1 BTCUSD @ 50000 gtd=+3600
  buy 1 BTCUSD @ 50000 at-the-open              sell 1 BTCUSD market at-the-close
  sell 1 BTCUSD @ 52000 parent=1 oco=1          sell 1 BTCUSD market stop=48000 parent=1 oco=1
  buy 1 BTCUSD @ 50000 self-trade=9:decrement   quote BTCUSD bids 1@49999 2@49998 asks 1@50001
  replace 7 2 @ 49000                           replace 8 5 @ 51000 display=2
  replace 9 1 stop=47000                        cancel all BTCUSD buy";

/// What `ringpit trade --help` ends with.
pub(in crate::commands::trade) fn after() -> String {
    format!(
        "Examples:
  ringpit trade                                     on this machine, as the demonstration user
  ringpit trade --user demo2                        in another terminal, as its counterparty
  echo 'buy 1 BTCUSD @ 50000' | ringpit trade       ends when the answer is there

Lines:
{LINES}

ID is the number that the accepted line shows; the entries of a quote have the quote's number and those behind it. The exit
status is 0 only if all lines were understood and done."
    )
}

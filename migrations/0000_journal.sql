CREATE TABLE `checkpoints` (
	`stream` integer NOT NULL,
	`seq` integer NOT NULL,
	`version` integer NOT NULL,
	`state` text NOT NULL,
	PRIMARY KEY(`stream`, `seq`)
);
--> statement-breakpoint
CREATE TABLE `cuts` (
	`stream` integer NOT NULL,
	`seq` integer NOT NULL,
	`time` integer NOT NULL,
	`total_entries` integer NOT NULL,
	`total_bytes` integer NOT NULL,
	PRIMARY KEY(`stream`, `seq`)
);
--> statement-breakpoint
CREATE TABLE `entries` (
	`seq` integer PRIMARY KEY NOT NULL,
	`stream` integer NOT NULL,
	`incarnation` integer NOT NULL,
	`time` integer NOT NULL,
	`item_seq` integer,
	`item_index` integer,
	`replaces` integer NOT NULL,
	`mark` integer NOT NULL,
	`bytes` integer NOT NULL,
	`event` text NOT NULL,
	`event_id` text NOT NULL,
	`context` text NOT NULL,
	`payload` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `entries_event` ON `entries` (`event_id`,`stream`,`incarnation`);--> statement-breakpoint
CREATE INDEX `entries_stream` ON `entries` (`stream`,`seq`);--> statement-breakpoint
CREATE INDEX `entries_item` ON `entries` (`item_seq`,`item_index`,`seq`) WHERE item_seq IS NOT NULL;--> statement-breakpoint
CREATE INDEX `entries_item_mark` ON `entries` (`item_seq`,`item_index`,`seq`) WHERE item_seq IS NOT NULL AND mark = 1;--> statement-breakpoint
CREATE INDEX `entries_mark` ON `entries` (`stream`,`seq`) WHERE mark = 1 OR replaces = 1;--> statement-breakpoint
CREATE INDEX `entries_replaces` ON `entries` (`stream`,`seq`) WHERE replaces = 1;--> statement-breakpoint
CREATE TABLE `generations` (
	`ordinal` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`id` integer NOT NULL,
	`first` integer NOT NULL,
	`time` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `generations_id_unique` ON `generations` (`id`);--> statement-breakpoint
CREATE TABLE `meta` (
	`name` text PRIMARY KEY NOT NULL,
	`value` blob NOT NULL
);
--> statement-breakpoint
CREATE TABLE `positions` (
	`stream` integer PRIMARY KEY NOT NULL,
	`position` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `quarantine` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`stream` integer NOT NULL,
	`time` integer NOT NULL,
	`cause` text NOT NULL,
	`bytes` integer NOT NULL,
	`kept` integer NOT NULL,
	`body` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `quarantine_stream` ON `quarantine` (`stream`);--> statement-breakpoint
CREATE TABLE `streams` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`source` text NOT NULL,
	`runtime` text NOT NULL,
	`worker` text NOT NULL,
	`profile` text,
	`incarnation` integer DEFAULT 0 NOT NULL,
	`last_deleted` integer DEFAULT 0 NOT NULL,
	`entries` integer DEFAULT 0 NOT NULL,
	`bytes` integer DEFAULT 0 NOT NULL,
	`total_entries` integer DEFAULT 0 NOT NULL,
	`total_bytes` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `streams_ref` ON `streams` (`source`,`runtime`,`worker`);